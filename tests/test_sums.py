"""Sums, units and days as they are asked; both the matcher and the small profile answer by them."""

from datetime import UTC, datetime

import pytest
from rows import each_row
from test_intents_languages import home, make_provider  # noqa: F401 - a fixture

from picoclaw.intents.sums import calculate, name_day

NOW = datetime(2026, 11, 26, 6, 0, tzinfo=UTC)  # a Thursday


@pytest.fixture(scope="module")
def provider(home):  # noqa: F811
    return make_provider(home)


@each_row(
    ("texts", "told"),
    [
        (["whats 14.5 times 12"], "14.5 × 12 = 174"),
        (["what day of the week was 8 August 1975?"], "Friday 1975-08-08"),
        (["which day was July 4, 1976"], "Sunday 1976-07-04"),
        (["14.5 times 12", "plus 20%"], "174 + 20 % = 208.8"),
        (["20% of 340"], "20 % of 340 = 68"),
        (["what's 12.5 percent of 240"], "12.5 % of 240 = 30"),
        (["half of 90"], "half of 90 = 45"),
        (["a third of 96?"], "third of 96 = 32"),
        (["How much fertiliser do I need for 7 litres of water at 1.5 ml per litre?"], "7 × 1.5 = 10.5 ml"),
        (["if I dissolve 1.5 grams per litre, how many grams do I need for 18 litres?"], "1.5 × 18 = 27 g"),
        (["sold 9 trays at 2.50 and 4 at 3 how much is that"], "9 × 2.5 + 4 × 3 = 34.5"),
        (["a bag costs 3.90, how much are seven with 10% off"], "3.9 × 7 - 10 % = 24.57"),
        (["12 plants need 0.5 litres each, how much water is that"], "12 × 0.5 = 6 litres"),
        (["245 plus vat at 20%"], "245 + 20 % = 294"),
        (["4 tyres at 68.50 plus 20% vat"], "4 × 68.5 + 20 % = 328.8"),
        (["what percentage is 34 of 42"], "34 / 42 = 80.95 %"),
        (["34 out of 42 in percent"], "34 / 42 = 80.95 %"),
        (["15% of 240", "and 20%"], "20 % of 240 = 48"),
        (["how many minutes is 2.5 hours", "times 3"], "150 × 3 = 450"),
        (["how many minutes is 2.5 hours", "and 3?"], "3 hours = 180 minutes"),
        (["my bed is 3.2 m long and 1.2 m wide, how many square metres is that"], "3.2 × 1.2 = 3.84 m²"),
        (["15 ml for 2 litres, how much for 10 litres?"], "15 / 2 × 10 = 75 ml"),
        (["7 hours at 12.50 an hour, what does that make"], "7 × 12.5 = 87.5"),
        (["what is the square root of 144?"], "√144 = 12"),
        (["what is 100 divided by 8"], "100 / 8 = 12.5"),
        (["3 plus 4 times 2"], "3 + 4 × 2 = 11"),
        (["how much is (3+2) * 12?"], "(3+2) * 12 = 60"),
        (["what's 1,000 times 3"], "1000 × 3 = 3000"),
        (["12 x 118,40"], "12 × 118.4 = 1420.8"),
        (["what's 12,345.5 plus 1"], "12345.5 + 1 = 12346.5"),
        (["how much is a 20% tip on 45"], "20 % of 45 = 9"),
        (["how much is 12 dollars for the hose plus 8 for the tape"], "12 + 8 = 20"),
        (["what's 12 times 4", "less 10%", "split between 3"], "43.2 / 3 = 14.4"),
        (["whats 15% of 80", "and of 120"], "15 % of 120 = 18"),
        (["what is on the list (3 things)"], ""),
        (["30 percent off 250, what's left"], "250 - 30 % = 175"),
        (["3 to the power of 12"], "3 to the power of 12 = 531441"),
        (["2 to the power of 64"], "2 to the power of 64 = 18446744073709551616"),
        (["split 99.60 between eight of us"], "99.6 / 8 = 12.45"),
        (["the pond is 2.5 by 1.2 m, what area is that"], "2.5 × 1.2 = 3 m²"),
        (["convert 25 celsius to fahrenheit"], "25 °C = 77 °F"),
        (["what's 70 °F in °C"], "70 °F = 21.11 °C"),
        (["75 f in c"], "75 °F = 23.89 °C"),
        (["68 fahrenheit, what would that be in good old celsius"], "68 °F = 20 °C"),
        (["how many inches are 30 cm"], "30 cm = 11.81 inches"),
        (["5 miles in km please"], "5 miles = 8.05 km"),
        (["12 gallons how many litres"], "12 imperial gallons = 54.55 litres"),
        (["how many minutes are 3.5 hours"], "3.5 hours = 210 minutes"),
        (["how many mins in a fortnight", "and hours"], "1 fortnight = 336 hours"),
        (["how long is it from 22:30 to 6:15"], "22:30 - 6:15: 7 h 45 min"),
        (["how many sleeps till 3 may"], "158 days: 2027-05-03 is a Monday."),
        (["what date is it a week today"], "7 days: 2026-12-03 is a Thursday."),
        (["what day is it in a week"], "7 days: 2026-12-03 is a Thursday."),
        (["what day is it two weeks from tomorrow"], "15 days: 2026-12-11 is a Friday."),
        (["what day is it the day after tomorrow"], "2 days: 2026-11-28 is a Saturday."),
        (["what date is 3 weeks before christmas"], "8 days: 2026-12-04 is a Friday."),
        (["how many days until christmas?"], "29 days: 2026-12-25 is a Friday."),
        (["how many days until christmas?", "and what weekday is that"], "29 days: 2026-12-25 is a Friday."),
        (["how long till 7"], "1 h (07:00)"),
        (["how many minutes until half past 5"], "11 h 30 min (17:30)"),
        (["how long until midnight"], "18 h (2026-11-27 00:00)"),
        (["how long should i water until 7"], ""),
        (["how long will the pump run till 7"], ""),
        (["68f to c"], "68 °F = 20 °C"),
        (["5km in miles"], "5 km = 3.11 miles"),
        (["how many days since christmas"], "336 days: 2025-12-25 is a Thursday."),
        (["how many weeks till the 14th of march"], "15 weeks and 3 days: 2027-03-14 is a Sunday."),
        (["how many days are left this month"], "4 days: 2026-11-30 is a Monday."),
        (["what week number is it next week"], "Week 49 of 2026."),
        (["what date is it next friday"], "8 days: 2026-12-04 is a Friday."),
        (["how many days until the end of the month"], "4 days: 2026-11-30 is a Monday."),
        (["what date is it next tuesday"], "5 days: 2026-12-01 is a Tuesday."),
        (["what day of the week is 24 december"], "28 days: 2026-12-24 is a Thursday."),
        (["which day was it three days ago"], "Monday 2026-11-23"),
        (["what is tomorrow's date"], "1 day: 2026-11-27 is a Friday."),
        (
            ["how many weeks until 18 december? That day we go on holiday."],
            "3 weeks and 1 day: 2026-12-18 is a Friday.",
        ),
        (["how many weeks until 18 december, the day we leave"], "3 weeks and 1 day: 2026-12-18 is a Friday."),
        (["have i watered more this week than last weekend"], ""),
        (["if i split 28 pupils into teams of 5, how many are left over?"], "28 = 5 × 5 + 3"),
        (["what is left over of 30 if i take 12 of them"], ""),
        (["is it the weekend yet"], "No: 2026-11-26 is a Thursday."),
        (["which week are we in"], "Week 48 of 2026."),
        (["10 divided by 0"], ""),
        (["5 feet in kg"], ""),
        (["how many grams are 3 miles"], ""),
        (["is it 20 degrees in there"], ""),
        (["remind me in 5 minutes"], ""),
        (["note that the pond is 2.5 by 1.2 m, so its area is small"], ""),
        (["note that 20 percent of 300 seeds came up"], ""),
        (["I sold 20 percent of 300 plants"], ""),
        (["what is 20 percent of 300 and 40 together"], ""),
        (["how long is the drive to the coast on friday"], ""),
        (["what day is it"], ""),
        (["remind me of the date tomorrow"], ""),
        (["how many days until Anna's birthday"], ""),
        (["what day is the 31st of february"], ""),
        (["what day is it in 999999 weeks"], ""),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_what_is_asked_is_worked_out(provider, texts, told):
    assert provider.tell_sum(texts[-1], NOW, texts[:-1]) == told


@each_row(
    ("language", "text", "told"),
    [
        ("en", "Add 12.50, 7.99 and 31.20", "12.5 + 7.99 + 31.2 = 51.69"),
        ("en", "subtract 37 from 112", "112 - 37 = 75"),
        ("en", "what is 1013 hpa in inches of mercury", "1013 hpa = 29.91 inches of mercury"),
        ("en", "count days between 12 Feb and 30 June", "138 days from 2027-02-12 to 2027-06-30."),
        ("en", "how many days until easter", "122 days: 2027-03-28 is a Sunday."),
        ("en", "how many sleeps till xmas", "29 days: 2026-12-25 is a Friday."),
        ("en", "when is the third sunday of advent", "17 days: 2026-12-13 is a Sunday."),
        ("en", "when is the christmas party", ""),
        ("en", "how many litres does a tank of 1.2 m by 0.8 m by 0.35 m hold", "1.2 × 0.8 × 0.35 metres = 336 litres"),
        ("en", "how many litres fit in a box 60 x 40 x 30 cm", "60 × 40 × 30 cm = 72 litres"),
        ("de", "Am wievielten ist der vierte Advent?", "24 Tage: 2026-12-20 ist ein Sonntag."),
        ("de", "Wie viele Liter fasst ein Becken von 1,20 m mal 0,80 m mal 0,35 m?", "1.2 × 0.8 × 0.35 m = 336 l"),
        ("es", "cuándo es navidad", "29 días: el 2026-12-25 es viernes."),
        ("es", "cuándo es la cena de navidad", ""),
        ("es", "cuántos litros caben en un depósito de 1,20 m por 0,80 m por 0,35 m", "1.2 × 0.8 × 0.35 m = 336 l"),
        ("es", "7,5 horas a 42 euros la hora, cuánto es", "7.5 × 42 = 315"),
        ("fr", "c'est quand le premier dimanche de l'avent", "3 jours: le 2026-11-29 est un dimanche."),
        ("fr", "combien de litres dans un bac de 120 x 80 x 35 cm", "120 × 80 × 35 cm = 336 l"),
        ("fr", "7h30 de boulot a 42 euros de lheure ca fait cb", "7:30 × 42 = 315"),
        ("de", "Was ist 17 mal 24?", "17 × 24 = 408"),
        (
            "de",
            "Wie viel Dünger brauche ich für 7 Liter Wasser, wenn 1,5 ml auf den Liter kommen?",
            "7 × 1.5 = 10.5 ml",
        ),
        (
            "es",
            "Si disuelvo 1,5 gramos de fertilizante por litro, ¿cuántos gramos necesito para 18 litros?",
            "1.5 × 18 = 27 g",
        ),
        ("fr", "Combien d'engrais pour 11 litres à 3 g par litre ?", "11 × 3 = 33 g"),
        ("es", "3 cajas a 12,50 y 5 a 8,90 cuanto es", "3 × 12.5 + 5 × 8.9 = 82"),
        ("de", "3 Kisten zu 12,50 und 5 zu 8,90", "3 × 12.5 + 5 × 8.9 = 82"),
        (
            "fr",
            "Un sachet de graines coûte 3,90 € ; combien pour sept, avec une remise de 10 % ?",
            "3.9 × 7 - 10 % = 24.57",
        ),
        ("de", "Ein Sack kostet 3,90, wie viel kosten 7 mit 10 % Rabatt?", "3.9 × 7 - 10 % = 24.57"),
        ("de", "wurzel aus 144", "√144 = 12"),
        ("de", "Wie viele Tage sind es noch bis Weihnachten?", "29 Tage: 2026-12-25 ist ein Freitag."),
        ("de", "seit dem 20. februar sind wieviel tage vergangen", "279 Tage: 2026-02-20 ist ein Freitag."),
        ("de", "Welcher Wochentag ist der 24.12.?", "28 Tage: 2026-12-24 ist ein Donnerstag."),
        ("de", "In welche Kalenderwoche fällt der 9. September?", "Kalenderwoche 36 von 2027."),
        ("es", "¿Cuánto es 17 por 23?", "17 × 23 = 391"),
        ("es", "15% de 240", "15 % de 240 = 36"),
        ("de", "1.000 mal 3", "1000 × 3 = 3000"),
        (
            "es",
            "29,90 del tinte mas 18 del corte cuanto es / y si le hago un 10 por ciento menos",
            "47.9 - 10 % = 43.11",
        ),
        ("es", "cuánto es 47,90 menos 4,79 / ¿entre dos?", "43.11 / 2 = 21.55"),
        ("es", "Tengo una parcela de 12.40 por 8.75 metros, ¿cuántos metros cuadrados son?", "12.4 × 8.75 = 108.5 m²"),
        ("fr", "12 nuits a 118,40 ca fait combien / moins 22% de charges", "1420.8 - 22 % = 1108.22"),
        ("de", "was sind 15% von 80 / und von 120", "15 % von 120 = 18"),
        ("es", "cuánto es el 15% de 80 / ¿y de 120?", "15 % de 120 = 18"),
        ("fr", "combien font 12,50 de terreau plus 8 de graines", "12.5 + 8 = 20.5"),
        ("es", "que dia cae el 15 de septiembre", "293 días: el 2027-09-15 es miércoles."),
        ("es", "¿Cae en sábado mi cumple, el 8 de noviembre?", "No: el 2027-11-08 es lunes."),
        ("fr", "144 divisé par 12", "144 / 12 = 12"),
        ("fr", "3 pieds 4 pouces en centimètres", "3.33 pieds = 101.6 cm"),
        ("fr", "C'était quel jour, le 12 février ?", "jeudi 2026-02-12"),
        ("fr", "combien de temps jusqu'à Pâques", "122 jours: le 2027-03-28 est un dimanche."),
        ("fr", "Si on partage 47 euros en trois, ça fait combien chacun ?", "47 / 3 = 15.67"),
        ("fr", "partage 60 € entre 4 personnes", "60 / 4 = 15"),
        ("fr", "répartis 24 plants sur 6 bacs", "24 / 6 = 4"),
        ("fr", "on est 5 pour une addition de 82,50 €, combien chacun ?", "82.5 / 5 = 16.5"),
        ("fr", "on est 4 à partager 90, ça fait combien par personne", "90 / 4 = 22.5"),
        ("fr", "divise 12 plants en 3 groupes", "12 / 3 = 4"),
        ("fr", "47 € à trois, combien chacun", "47 / 3 = 15.67"),
        ("fr", "3 paquets de graines à 2,50 euros ça fait combien", "3 × 2.5 = 7.5"),
        ("fr", "j'ai acheté 6 plants à 1,20, combien ça coûte", "6 × 1.2 = 7.2"),
        ("fr", "4 sacs de terreau à 6,90€ pièce et un pot à 3€, ça fait combien", "4 × 6.9 + 1 × 3 = 30.6"),
        ("fr", "12 € + 7,50 €", "12 + 7.5 = 19.5"),
        ("fr", "j'ai partagé 3 plants avec 2 voisins", ""),
        ("fr", "on est 5 pour 8 tentes, combien chacun", ""),
        ("fr", "combien faisait-il à 8 heures et à 10 heures", ""),
        ("en", "if we split 47 euros in three, how much each?", "47 / 3 = 15.67"),
        ("en", "5 of us share £82, how much is that each", "82 / 5 = 16.4"),
        ("en", "share 24 plants between 6 pots", "24 / 6 = 4"),
        ("en", "3 bags at £4.50 each and 2 pots at £1 each, how much", "3 × 4.5 + 2 × 1 = 15.5"),
        ("en", "14 bags at 3.79 each", "14 × 3.79 = 53.06"),
        ("de", "teil 47 Euro durch drei", "47 / 3 = 15.67"),
        ("de", "wenn wir 47 Euro zwischen drei Leuten aufteilen, wie viel ist das für jeden?", "47 / 3 = 15.67"),
        ("de", "verteile 24 Pflanzen auf 6 Kästen", "24 / 6 = 4"),
        ("es", "si repartimos 47 euros entre tres, ¿cuánto toca a cada uno?", "47 / 3 = 15.67"),
        ("es", "somos 5 y pagamos 82 euros, ¿cuánto por persona?", "82 / 5 = 16.4"),
        ("es", "divide 340 entre 8", "340 / 8 = 42.5"),
        ("de", "der pumpenfilter ist vom 3. mai", ""),
        ("fr", "rappelle-moi le 3 mai de tailler les rosiers", ""),
        ("es", "el 3 de mayo llovió", ""),
        ("es", "Si compro 3 sacos de tierra a 7,45 cada uno, ¿cuánto es en total?", "3 × 7.45 = 22.35"),
        ("es", "compro 5 macetas a 2,30, ¿cuánto me gasto?", "5 × 2.3 = 11.5"),
        ("es", "si cada planta vale 1,20 y llevo 12, cuánto pago", "1.2 × 12 = 14.4"),
        ("es", "cuánto pago por 3 kilos de semillas a 12 euros el kilo", "3 × 12 = 36"),
        ("es", "compro 3 sacos y vendo 5 macetas, ¿cuántos días quedan?", ""),
        ("es", "compro macetas a 2,30", ""),
        ("es", "qué día de la semana es el 24", "28 días: el 2026-12-24 es jueves."),
    ],
    ids=str,
)
def test_other_languages_work_out_the_same(provider, language, text, told):
    provider._listen_in(language)
    try:
        *before, last = text.split(" / ")
        assert provider.tell_sum(last, NOW, before) == told
    finally:
        provider._listen_in("en")


@each_row(("expression", "value"), [("2+3*4", 14), ("(2+3)*4", 20), ("-7/2", -3.5), ("0.1*240", 24), ("2**10", 1024)])
def test_an_expression_is_worked_out(expression, value):
    assert calculate(expression) == pytest.approx(value)


@each_row(
    "expression", ["__import__('os')", "9**9**9", "99999**99", "2**100", "a+1", "1 if 1 else 2", "", "1//0", "True+1"]
)
def test_no_expression_runs_anything(expression):
    with pytest.raises((ValueError, SyntaxError)):
        calculate(expression)


def test_the_day_before_one_that_was_found_is_named():
    found = "memory/202611/20261126.md:3 (2026-11-26) - 05:58 Anna's birthday is on 14 March."
    assert name_day("remind me the day before at 10", found, NOW) == "remind me on 13 March at 10"
    assert name_day("remind me at 10", found, NOW) == name_day("remind me the day before", "nothing", NOW) == ""
