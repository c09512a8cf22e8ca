"""The connection to the MQTT broker of the house; imported only where config.toml has [mqtt]."""
