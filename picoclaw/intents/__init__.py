"""The built-in provider that needs no model. How a sentence becomes a call, and the call's result an answer:

1. `provider.IntentProvider.events` is asked, as every provider is. It takes the language of the text (`_listen`), what was
   spoken of (`conversation.find_referents`), and whether the text answers a question (`_understand_answer`).
2. `wishes.WishMatcher.match_wishes` parts a text with several wishes, and leaves out what only tells something.
3. `matcher.IntentMatcher.match` understands one sentence (`sentence.Sentence`): `_find` by a template, then by a frame
   (`frames`), then as a question about measurements (`questions`); `_judge` has a classifier (`topics`) agree, or asks whether
   something is meant (`_propose`).
4. Each reads slots by `sentence.SlotReader`, times by `times.TimeReader`.
5. `arguments.Draft.make` makes arguments of the slots (its table `STEPS`), and `grammar.make_match` a call of these.
6. `results.ResultWording.tell_result` words what the call has brought.

`sums` works out sums and days, `onboarding` holds the first meeting. All words are data: `templates/intents/*.toml`, checked
by `compiler`, loaded by `grammar`.
"""
