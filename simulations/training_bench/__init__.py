"""What a training job at full load beside the online tier costs its p99."""
