"""Ten minutes of ordinary talk in each language, without a model, for docs/talk/.

It is had with the whole agent, in a new home on the simulated board; guide.py beside this makes the pages.
"""

import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from test_history_tools import fill  # noqa: E402 - a checkout need not be installed

from picoclaw.app import App  # noqa: E402
from picoclaw.config import Config  # noqa: E402
from picoclaw.config.tables import MemoryConfig  # noqa: E402
from picoclaw.hw.sim import SimBoard  # noqa: E402
from picoclaw.messages import Inbound  # noqa: E402
from picoclaw.workspace import prepare_home  # noqa: E402

NOW = datetime(2026, 11, 23, 17, 24, tzinfo=UTC)
STEP = timedelta(seconds=35)
OUTPUTS = """[outputs.fan]
line = "GPIO17"
kind = "motor"
longest_on_s = 3600
confirm = false
[outputs.pump]
line = "GPIO27"
kind = "pump"
longest_on_s = 600
confirm = false
"""
TALKS = {
    "English": """how warm is it in the greenhouse?
and the humidity?
how cold was it last night
show me a chart of the temperature today
turn the fan on for ten minutes
is the pump on?
remind me to water the seedlings
every day at 8 and at 18:30
remind me tomorrow at 9 to call Anna
move the call to 10:30
what reminders do I have?
stop reminding me about the seedlings
note that the filter was changed
when was the filter changed
will it freeze tonight?
tell me when the greenhouse gets below 5 degrees
don't turn on the pump
what did I just ask you
turn the fan on and order a pizza
thanks, that's all""",
    "Deutsch": """Wie warm ist es im Gewächshaus?
und die Luftfeuchtigkeit?
wie kalt war es letzte Nacht
zeig mir die Temperatur von heute als Diagramm
schalte den Lüfter für zehn Minuten ein
läuft die Pumpe noch?
erinnere mich jeden Tag um 8 und um 18:30 Uhr ans Gießen
erinnere mich morgen um 9 Uhr an Anna
verschieb die Erinnerung an Anna auf 10:30
welche Erinnerungen gibt es
lösche die Erinnerung ans Gießen
notiere, dass der Filter gewechselt ist
was habe ich über den Filter notiert
wird es heute Nacht frieren?
sag mir Bescheid, wenn es im Gewächshaus unter 5 Grad fällt
schalte die Pumpe nicht ein
ist alles in Ordnung?
schalte den Lüfter ein und bestell eine Pizza
wann war es gestern am wärmsten?
und draußen?
ist es drinnen feuchter als draußen?
Durchschnittstemperatur der letzten 3 Tage
steigt der Luftdruck?
könnten Sie bitte den Lüfter für eine Viertelstunde einschalten?
mach ihn in fünf Minuten wieder aus
läuft er noch?
weck mich um Viertel vor sieben
doch lieber um halb acht
ach vergiss es
setz Milch, Brot und Eier auf die Einkaufsliste
Brot hab ich schon
was fehlt noch
jeden Dienstag und Freitag um 18 Uhr Tomaten ausgeizen
welcher Tag ist heute?
danke""",
    "Español": """¿Qué temperatura hace en el invernadero?
¿y la humedad?
la temperatura de ayer
enséñame una gráfica de la temperatura de hoy
enciende el ventilador durante diez minutos
¿está encendida la bomba?
recuérdame todos los días a las 8 y a las 18 regar
recuérdame mañana a las 9 llamar a Ana
mueve el recordatorio de Ana a las 10:30
qué recordatorios hay
borra el recordatorio de regar
anota que el filtro es nuevo
qué he anotado sobre el filtro
avísame si en el invernadero hace menos de 5 grados
no enciendas la bomba
¿va todo bien?
enciende el ventilador y pide una pizza
¿cuándo hizo más calor ayer?
¿y fuera?
¿hay más humedad dentro que fuera?
temperatura media de los últimos 3 días
¿está subiendo la presión?
¿podría encender el ventilador un cuarto de hora, por favor?
apágalo en cinco minutos
¿sigue encendido?
despiértame a las siete menos cuarto
mejor a las siete y media
olvídalo
añade leche, pan y huevos a la lista de la compra
el pan ya lo tengo
léeme la lista
cada martes y viernes a las 18 podar los tomates
qué día es hoy
gracias""",
    "Français": """Quelle est la température dans la serre ?
et l'humidité ?
quelle était la température hier
montre-moi un graphique de la température d'aujourd'hui
allume le ventilateur pendant dix minutes
la pompe est allumée ?
rappelle-moi tous les jours à 8h et à 18h d'arroser
rappelle-moi demain à 9h d'appeler Anne
déplace le rappel pour Anne à 10h30
quels rappels y a-t-il
supprime le rappel pour arroser
note que le filtre est neuf
notes sur le filtre
préviens-moi quand il fait moins de 5 degrés dans la serre
n'allume pas la pompe
tout va bien ?
allume le ventilateur et commande une pizza
à quelle heure a-t-il fait le plus chaud hier ?
et dehors ?
c'est plus humide dedans que dehors ?
température moyenne des 3 derniers jours
la pression monte ?
pourriez-vous allumer le ventilateur un quart d'heure, s'il vous plaît ?
éteins-le dans cinq minutes
il tourne encore ?
réveille-moi à sept heures moins le quart
plutôt à sept heures et demie
laisse tomber
ajoute du lait, du pain et des œufs à la liste de courses
le pain c'est fait
il reste quoi à acheter
tous les mardis et vendredis à 18h tailler les tomates
on est quel jour ?
merci""",
}


class TalkApp(App):
    """The agent at the moment of a line."""

    lines = 0

    def now(self) -> datetime:
        """Each line is half a minute behind the one before."""
        return NOW + self.lines * STEP


def have(home: Path, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Have a talk in a new home: each line, with the reply."""
    prepare_home(home, restore=True)
    (home / "workspace/BOOTSTRAP.md").unlink(missing_ok=True)
    (home / "outputs.toml").write_text(OUTPUTS, "utf-8")
    database, _ = fill(home, NOW)
    database.close()
    config = Config(home, memory=MemoryConfig(embeddings="off"))
    with closing(TalkApp(config, SimBoard(), rehearses=True)) as app:
        for line in lines:
            yield line, app.dispatcher.answer(Inbound("terminal", line)).reply
            app.lines += 1
