"""What a region needs before its fleet starts: CAs, certificates, the broker's files, settings.

`layout`, `acl`, `brokers` and `settings` give texts and are pure; `init` writes them.
"""
