"""`picoclaw mqtt`: looks at what is published at the broker."""

import math

from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import print_wrapped
from picoclaw.config import load_config
from picoclaw.errors import ConfigError

_NO_BROKER = "there is no broker: write host under [mqtt] in config.toml"


def options(parser: Parser) -> None:
    words = parser.add_words(
        {"discover": "listen for a moment, list the published topics, and suggest sensors to add"}, required=True
    )
    words["discover"].add_argument("--seconds", type=float, default=10.0, help="how long to listen (10)")
    words["discover"].add_argument("--topic", default="#", help="what to listen to, such as zigbee2mqtt/# (everything)")


def run(given: Options) -> int:
    config = load_config()
    if not config.mqtt.host:
        raise ConfigError(_NO_BROKER)
    try:
        from picoclaw.mqtt.connection import listen
    except ImportError:
        raise ConfigError('paho-mqtt is not installed: pip install "picoclaw-edge[mqtt]"') from None
    from picoclaw.hw.loader import format_sensor_table
    from picoclaw.mqtt.discover import MAX_TOPICS, Listener, is_filter, list_offers, list_topics

    if not is_filter(given.topic):
        raise ConfigError(
            f"{given.topic[:60]!r} is no topic to listen to: such as zigbee2mqtt/# or +/sensor/temperature"
        )

    heard = Listener()
    seconds = given.seconds if math.isfinite(given.seconds) else 0.0
    topics = dict.fromkeys([given.topic, "homeassistant/+/+/config", "homeassistant/+/+/+/config"])
    problem = listen(config.mqtt, config.mqtt_password, min(max(0.1, seconds), 3600), topics, heard.hear)
    if problem:
        raise ConfigError(f"{config.mqtt.host}: {problem}")
    rows = list(list_topics(heard.last))
    print_wrapped(*rows)
    offers = list_offers(heard.last, config.sensors, f"{config.mqtt.base}/")
    print(f"# {len(rows)} topics{f'; there are more than {MAX_TOPICS}' if heard.missed else ''}")
    if offers:
        print("# To add a sensor, copy its lines into config.toml, and restart picoclaw:")
    for offer in offers:
        print(f"\n# {offer.value or 'nothing published meanwhile'}")
        print(format_sensor_table(offer.name, offer.sensor), end="")
    return 0
