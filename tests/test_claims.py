"""What an answer gives as measured, and whether anything bears it out."""

import pytest

from picoclaw.hw.claims import claimed, unfounded

READ = "greenhouse: temperature 17.89 °C, humidity 69.50 %, pressure 1004.06 hPa (bme280, read just now)"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1013.25 hPa", ["1013.25 hPa"]),
        ("The humidity is 69.50 %.", ["69.50 %"]),
        ("Temperature: 24.56°C, Throttling: 0%", ["24.56°C", "0%"]),
        ("It is 25 degrees Celsius in the greenhouse.", ["25 degrees Celsius"]),
        ("Temperature: 25.00 °C, load: 0.00, clock: 2026-11-22 05:15 UTC", ["25.00 °C"]),
        ("Hello.\nThe current temperature is -3,5 °C.", ["-3,5 °C"]),
        ("The light is at 300 lx; the CO2 is 412 ppm.", ["300 lx", "412 ppm"]),
    ],
)
def test_a_claim_is_found(text, values):
    assert claimed(text) == values


@pytest.mark.parametrize(
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
    assert claimed(text) == []


@pytest.mark.parametrize(
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
    assert unfounded(answer, asked, [READ]) == missing
