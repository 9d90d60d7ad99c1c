"""What runs a variant: onnxruntime, openvino, tensorrt. Probed, ranked, never assumed."""
