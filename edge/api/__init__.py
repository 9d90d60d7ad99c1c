"""The local HTTP API: inference in the Open Inference Protocol v2, answers by id, status.

For applications on this device. The handlers know `edge.answers.Answering` and nothing else of
the agent.
"""
