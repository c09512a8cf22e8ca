"""What an answer gives as measured, and whether anything bears it out."""

from rows import each_row

from picoclaw.answers import find_claims, find_unfounded_claims
from picoclaw.messages import Message

READ = "greenhouse: temperature 17.89 °C, humidity 69.50 %, pressure 1004.06 hPa (bme280, read just now)"


@each_row(
    ("text", "values"),
    [
        ("1013.25 hPa", ["1013.25 hPa"]),
        ("The humidity is 69.50 %.", ["69.50 %"]),
        ("Temperature: 24.56°C, Throttling: 0%", ["24.56°C", "0%"]),
        ("It is 25 degrees Celsius in the greenhouse.", ["25 degrees Celsius"]),
        ("Temperature: 25.00 °C, load: 0.00, clock: 2026-11-22 05:15 UTC", ["25.00 °C"]),
        ("Hello.\nThe current temperature is -3,5 °C.", ["-3,5 °C"]),
        ("The light is at 300 lx; the CO2 is 412 ppm.", ["300 lx", "412 ppm"]),
        (
            "It is 300 lux, 1013 mbar, 25 celsius or 77 fahrenheit.",
            ["300 lux", "1013 mbar", "25 celsius", "77 fahrenheit"],
        ),
        ("The voltage is 3.3 V or 3300 mV.", ["3.3 V", "3300 mV"]),
        ("The current is 0.12 A or 120 mA, the power 0.6 W or 600 mW.", ["0.12 A", "120 mA", "0.6 W", "600 mW"]),
        ("It is 5 m/s, 18 km/h, 11 mph and 9.7 knots.", ["5 m/s", "18 km/h", "11 mph", "9.7 knots"]),
    ],
)
def test_a_claim_is_found(text, values):
    assert find_claims(text) == values


@each_row(
    "text",
    [
        "Water boils at 100 °C.",
        "Tomatoes like 18 to 25 °C.",
        "Keep the humidity between 60 % and 80 %.",
        "The ideal temperature is 21 °C.",
        "Standard pressure is 1013.25 hPa.",
        "The BME280 measures temperatures from -40 to 85 °C.",
        "A red LED needs 2 V.",
        "The GPIO pins take 3.3 V.",
        "If the temperature is below 5 °C, I'll tell you.",
        "The heater is set to switch on when it is 5 °C.",
        "I remind you at 10:30.",
        "7 times 8 equals 56.",
        "Your file has 304 bytes.",
        "Hello! How can I help?",
        "",
    ],
)
def test_what_is_said_in_general_claims_nothing(text):
    assert find_claims(text) == []


@each_row(
    ("asked", "text"),
    [
        ("What is the logic voltage of the GPIO pins?", "The logic voltage of the GPIO pins is 3.3 V."),
        ("What is 20 of 80 in percent?", "That's 25 %."),
        ("How many degrees has a right angle?", "90 degrees."),
        ("What voltage does USB have?", "5 V."),
        ("How cold should a fridge be?", "4 °C."),
        ("How cold is it in a fridge?", "It is 4 °C."),
        ("What is one atmosphere of pressure in hPa?", "1013.25 hPa."),
        ("When does it throttle?", "It throttles at 80 °C."),
        ("Will it rain?", "The chance of rain is 40%."),
        ("What is twenty degrees in Fahrenheit?", "It is 68 °F."),
        ("hello", "5 V."),
        ("How hot is the sun?", "It is 5500 °C."),
    ],
)
def test_what_was_not_asked_of_here_and_now_claims_nothing(asked, text):
    assert find_claims(text, asked) == []


@each_row(
    ("text", "value"),
    [
        ("The temperature in the attic is 21.7 °C.", "21.7 °C"),
        ("The current temperature is 21.7 °C.", "21.7 °C"),
        ("Humidity: 50 %", "50 %"),
        ("The humidity is 50 %.", "50 %"),
        ("It's 21.7 °C in the attic.", "21.7 °C"),
        ("Currently 21.7 °C.", "21.7 °C"),
    ],
)
def test_a_sentence_may_say_itself_that_it_is_so_here_and_now(text, value):
    assert find_claims(text, "well?") == [value]


@each_row(
    "text",
    [
        "It is 21.7 °C, from the sensor.",
        "It is 21.7 °C from the sensor.",
        "The temperature is 21.7 °C, which is above average.",
        "The temperature is 21.7 °C, so the heater may stay off.",
        "It is 21.7 °C. Tell me if that is below your limit.",
        "It is 21.7 °C, tell me if it should be more.",
    ],
)
def test_a_word_about_something_else_hides_no_claim(text):
    assert find_claims(text) == ["21.7 °C"]


CLOCK = "Sunday 2026-11-22 05:50 UTC"


@each_row(
    ("answer", "told", "beside", "missing"),
    [
        ("The humidity is 50 %.", [CLOCK], "", ["50 %"]),
        ("It is 25 °C.", [], "There are 25 tools.", ["25 °C"]),
        ("It is 25 °C.", [], "The tank is kept at 25 °C.", []),
        ("It is 25 °C.", ["set it to 25"], "", []),
        ("The voltage is 3.3 V.", ["3300 mV"], "", []),
        ("It is 21.4 °C.", ["data: 80 5a 00 12 ff"], "", []),
        ("It is 21.4 °C.", ["porch: bme280 on i2c-1 at 0x76"], "", ["21.4 °C"]),
    ],
)
def test_which_numbers_bear_a_value_out(answer, told, beside, missing):
    assert (
        find_unfounded_claims(
            answer, "how warm, how humid, what voltage?", [Message("tool", text) for text in told], beside
        )
        == missing
    )


@each_row(
    ("answer", "asked", "missing"),
    [
        ("The temperature is 17.89 °C.", "how warm is it?", []),
        ("It is 17.9 °C, and the humidity is 70 %.", "how is it?", []),
        ("It is 18 °C.", "how warm is it?", []),
        ("It is 64.2 °F.", "and in Fahrenheit?", []),
        ("The pressure is 1013.25 hPa.", "and the pressure?", ["1013.25 hPa"]),
        ("The humidity is 50 %, the temperature is 17.89 °C.", "well?", ["50 %"]),
        ("It is 17.2 °C.", "how warm is it?", ["17.2 °C"]),
        ("It is 64.4 °F.", "what is 18 °C in Fahrenheit?", []),
    ],
)
def test_what_nothing_bears_out(answer, asked, missing):
    assert find_unfounded_claims(answer, asked, [Message("tool", READ)]) == missing
