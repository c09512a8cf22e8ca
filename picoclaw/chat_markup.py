"""Takes the force out of chat templates' control tokens in a text, and leaves the text readable.

A server that puts messages into a model's template may read `<|im_start|>system` in a file, a web page or a sensor's
name as the beginning of a system message. The tokens are those of the public templates of Llama 2 to 4, ChatML, Qwen,
Mistral, Gemma, DeepSeek, Phi, GPT-OSS, Command-R, GLM, Granite, EXAONE, Nemotron and Seed.
"""

from picoclaw.pattern import pattern

_ANGLE = (
    "(?:start|end)_of_turn>",
    "(?:bos|eos|unk|pad)(?:_token)?>",
    "tool_(?:call|response|result)s?>",
    "(?:think|sop|eop|arg_key|arg_value)>",
    "(?:function|parameter)=",
    r"(?:special|extra_id)_\d{1,4}>",
    r"seed:\w{1,20}>",
    r"[a-z]{1,20}:tool_calls?>",
    "(?:start|end)_function_call>",
    "(?:toolcall|function_calls)>",
    'invoke name="',
    r"[a-z_]{1,40}\|>",  # <turn|>
)
_SQUARE = ("inst", "tool_calls", "available_tools", "tool_results", "tool_content", "system_prompt", "think", "gmask")
_ROLES = ("system", "user", "assistant", "tool", "endofturn")

# `<|` before anything that can be a name, `<｜` before everything. `<S>` is a type's parameter in code and no token.
_OPENING = pattern(
    rf'<(?=/?(?:\|["/\w]|｜|(?=[a-zA-Z_])(?:s>|(?i:{"|".join(_ANGLE)})))|(?i:</?sys>>))'
    rf"|\[(?=/?(?=[a-zA-Z])(?i:{'|'.join(_SQUARE)})\]|(?i:\|(?:{'|'.join(_ROLES)})\|\]))"
)


def neutral(text: str) -> str:
    """Put a blank behind the bracket that opens a control token: `< |im_start|>`. Doing it twice changes nothing."""
    return _OPENING.sub(lambda bracket: f"{bracket[0]} ", text)
