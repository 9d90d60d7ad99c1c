"""Who may connect, publish and subscribe: passwords, certificates, topic rules, rates. Pure."""
