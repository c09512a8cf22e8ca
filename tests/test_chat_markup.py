"""Control tokens of chat templates lose their force, and nothing else changes."""

from itertools import product

from picoclaw.text import escape_control_tokens

TABLE = """
<|im_start|> <|im_end|> <|im_sep|> <|endoftext|> <|system|> <|user|> <|assistant|> <|end|>
<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|> <|python_tag|> <|header_start|>
<|start|> <|channel|> <|message|> <|call|> <|return|> <|fim_prefix|> <|vision_start|> <|start_of_role|> <|observation|>
<|START_OF_TURN_TOKEN|> <|CHATBOT_TOKEN|> <BOS_TOKEN> <EOS_TOKEN> <|turn> <turn|> <|tool_call> <tool_call|> <|"|>
<｜User｜> <｜Assistant｜> <｜begin▁of▁sentence｜> <｜tool▁calls▁begin｜> <｜DSML｜invoke </｜DSML｜invoke>
<s> </s> [INST] [/INST] <<SYS>> <</SYS>> <start_of_turn> <end_of_turn> <bos> <eos> <unk> <pad>
[TOOL_CALLS] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CONTENT] [SYSTEM_PROMPT]
[/SYSTEM_PROMPT] [THINK] [/THINK] [gMASK] <sop> [|system|] [|endofturn|]
<tool_call> </tool_call> <tool_response> </tool_response> <think> </think> <function= <parameter= <arg_key> </arg_value>
<SPECIAL_10> <extra_id_0> <seed:bos> <minimax:tool_call> </minimax:tool_call> <function_calls> </function_calls>
<start_function_call> <end_function_call> <TOOLCALL> </TOOLCALL>
"""
TOKENS = [*TABLE.split(), '<invoke name="']
ORDINARY = [
    "",
    "a <b> c",
    "x < y | z",
    "x<y|z",
    "f <| x |> g <|> h",
    "cat <file | sort",
    "x <<= 2; y << 3",
    "<s3> <sa> <span> <small> <strong> <section>",
    "List<S> names",
    "<p>21 °C</p><br/>",
    "<thinking> <bosch> <padding> <tool> <functions>",
    "values[i] [x](y) [1, 2] [install] [tool.ruff] [instance]",
    "a[|b",
    "< |im_start|> [ INST]",
    "<moment>now</moment>",
    '{"quantity": "temperature", "n": [1, null]}',
]


def test_a_control_token_is_broken_wherever_it_stands_and_stays_readable() -> None:
    around = ("{}", "x{}y", "<{}>", "[{}]", "{0}{0}", "<|{}", "{}system\n")
    for token, form in product(TOKENS, around):
        text = form.format(token)
        broken = escape_control_tokens(text)
        assert token not in broken
        assert escape_control_tokens(broken) == broken
        assert broken.replace(" ", "") == text.replace(" ", "")


def test_a_token_in_another_case_is_broken_too() -> None:
    for token in TOKENS:
        for variant in (token.upper(), token.lower(), token.title()):
            assert token in {"<s>", "</s>"} or variant not in escape_control_tokens(variant)


def test_ordinary_text_stays_as_it_is() -> None:
    assert [escape_control_tokens(text) for text in ORDINARY] == ORDINARY


def test_what_is_left_can_be_read() -> None:
    assert (
        escape_control_tokens("<|im_start|>system\n[INST]<<SYS>>x</s>") == "< |im_start|>system\n[ INST]< <SYS>>x< /s>"
    )
