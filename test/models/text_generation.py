"""The loop over tokens in Python, each time over the whole text in ONNX Runtime: what executables with `generate:` shall give."""

import numpy as np


def philox(counter, key):
    """Philox4x32-10."""
    counter, key = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def choose(logits, position, row=0, temperature=0.0, top_k=0, top_p=1.0, seed=0):
    """The next token, as README.md says it is chosen."""
    logits = np.asarray(logits, np.float64)
    if temperature == 0:
        return int(logits.argmax())
    order = np.argsort(-logits, kind="stable")
    kept = order[:top_k] if top_k else order
    weights = np.exp((logits - logits.max()) / temperature)
    sums = np.cumsum(weights[kept])
    kept = np.sort(kept[:int(np.searchsorted(sums, top_p * sums[-1])) + 1]) if top_p < 1 else np.sort(kept)
    draw = philox((row, 0, position, 0), (seed, 0xFFFFFFFF))[0] / 2**32
    return int(kept[np.searchsorted(np.cumsum(weights[kept]), draw * weights[kept].sum(), side="right")])


def inputs_of(session, text):
    """The inputs of a model for a whole text; a cache, where it has one, is empty."""
    shape = text.shape
    known = {"input_ids": text, "attention_mask": np.ones(shape, np.int64),
             "position_ids": np.broadcast_to(np.arange(shape[1]), shape).copy()}
    empty = {port.name: np.zeros([extent if isinstance(extent, int) else 0 if dim else shape[0] for dim, extent in enumerate(port.shape)],
                                 np.float32) for port in session.get_inputs() if port.name not in known}
    return {port.name: known.get(port.name, empty.get(port.name)) for port in session.get_inputs()}


def generate(session, prompt, count, end=(), **sampling):
    """New tokens [batch, up to count] after a prompt [batch, length]; each row is filled up with its end token."""
    text = np.asarray(prompt, np.int64)
    length = text.shape[1]
    for _ in range(count):
        logits = session.run(["logits"], inputs_of(session, text))[0][:, -1]
        chosen = [choose(line, text.shape[1], row, **sampling) for row, line in enumerate(logits)]
        if text.shape[1] > length:
            chosen = [last if last in end else token for last, token in zip(text[:, -1], chosen)]
        text = np.concatenate([text, np.array(chosen)[:, None]], 1)
        if all(token in end for token in chosen):
            break
    return text[:, length:]
