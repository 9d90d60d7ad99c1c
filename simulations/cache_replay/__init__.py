"""What each cache policy keeps of three streams of requests: hit rates, and the cost of an access."""
