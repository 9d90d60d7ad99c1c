"""Who may connect, publish and subscribe: passwords, certificates, topic rules.

`gate` judges a CONNECT and makes an `identity`; `acl` parses the topic rules and gives each identity
its `rules`, which stand on `filters`; `revocations` are certificates that count no more. All of it is pure but `files`, which reads the three files.
"""
