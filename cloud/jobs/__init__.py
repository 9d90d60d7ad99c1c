"""The asynchronous deadline tier: a request is on disk before it is accepted, its result is there
for up to 24 h, by id or by webhook.

`desk` accepts and shows, `runner` answers, `webhooks` delivers; `database` and the modules named
after what they do to it (`admission`, `claims`, `results`) are the store, which several processes
share. `service` puts one process's part together, `routes` are its HTTP.
"""
