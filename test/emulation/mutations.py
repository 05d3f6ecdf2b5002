"""Puts mistakes into an emitted cuda program: all of them into one text, each controlled by a switch, so that one build
serves all of them. WEFT_MUTATIONS selects the active ones at run time, as numbers with commas. """

import dataclasses
import re

SWITCH = """#pragma once
#include <cstdlib>
#include <type_traits>
#include <weft_emulation/hooks.h>
namespace mutation {
/// Set before main, hence no edge between threads.
struct Chosen {
  bool on[4096] = {};
  Chosen() {
    const char* at = std::getenv("WEFT_MUTATIONS");
    for (char* end = nullptr; at != nullptr && *at != 0; at = *end == ',' ? end + 1 : end)
      on[std::strtoul(at, &end, 10)] = true;
  }
};
inline const Chosen chosen;
inline bool is(int number) { return chosen.on[number]; }
template <class T>
T load_relaxed(const T* at) {
  weft::emulation::perturb();
  return __atomic_load_n(at, __ATOMIC_RELAXED);
}
template <class T>
T add_relaxed(T* at, T value) {
  weft::emulation::perturb();
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
template <class T>
void store_relaxed(T* at, std::type_identity_t<T> value) {
  weft::emulation::perturb();
  __atomic_store_n(at, value, __ATOMIC_RELAXED);
}
}  // namespace mutation
"""


@dataclasses.dataclass
class Mutation:
    number: int
    kind: str
    name: str  # FILE:LINE FUNCTION what stands there -> what becomes of it
    expect: str  # caught; same: no output bit changes; refused: an error says so

    def function(self):
        return self.name.split()[1]

    def is_one_block(self):
        return self.kind == "any grid" and "-> weft::Grid{1," in self.name


@dataclasses.dataclass
class Alternative:
    kind: str
    text: str
    expect: str = "caught"


class Mutator:
    """Numbers mutations over several files."""

    def __init__(self, first=1):
        self.mutations = []
        self.first = first

    def mutate(self, file, text, rules, begin=0, end=None):
        """The text with a switch for every alternative of every match of the rules in [begin, end)."""
        spans = {}
        for pattern, alternatives in rules:
            for match in re.compile(pattern).finditer(text, begin, len(text) if end is None else end):
                span = match.span("site" if "site" in match.groupdict() else 0)
                spans.setdefault(span, []).extend(alternatives(match))
        for (start, stop), alternatives in sorted(spans.items(), reverse=True):
            old = text[start:stop]
            switched = f"weft::Grid{old}" if old.startswith("{") else old
            for alternative in reversed(alternatives):
                switched = self._switch(place_of(file, text, start), old, switched, alternative)
            text = text[:start] + switched + text[stop:]
        return text

    def _switch(self, place, old, rest, alternative):
        number = self.first + len(self.mutations)
        name = f"{place} {old} -> {alternative.text or 'nothing'}"
        self.mutations.append(Mutation(number, alternative.kind, name, alternative.expect))
        if old.endswith(";"):
            return f"{{ if (mutation::is({number})) {{ {alternative.text} }} else {rest} }}"
        return f"(mutation::is({number}) ? {alternative.text} : {rest})"


def place_of(file, text, at):
    """FILE:LINE and the function on the device."""
    functions = re.findall(r"^(?:static )?(?:WEFT_DEVICE|__global__)[^\n]*?(\w+)\(", text[:at], re.MULTILINE)
    return f"{file}:{text.count(chr(10), 0, at) + 1}" + (f" {functions[-1]}" if functions else "")


def left_out(kind):
    return lambda match: [Alternative(kind, "")]


def replaced(kind, template):
    return lambda match: [Alternative(kind, match.expand(template))]


# ---- weft/device.h --------------------------------------------------------------------------------------------------

REDUCTION_RULES = [
    (r"__syncthreads\(\);", left_out("dropped barrier")),
    (r"of_warps\[([^\[\]]*)\]", replaced("shared index", r"of_warps[(\1) + 1]")),
]
FLAG_RULES = [
    (r"__syncthreads\(\);", left_out("dropped barrier")),
    (r"__syncthreads_or\(late\) == 0", replaced("dropped barrier", "!late")),
    (r"load_acquire\(([^()]*)\)", replaced("relaxed flag", r"mutation::load_relaxed(\1)")),
    (r"add_acquire_release\(([^()]*)\)", replaced("relaxed flag", r"mutation::add_relaxed(\1)")),
    (r"\*come = 0;", left_out("barrier not over")),
    (r"store_release\(((?:[^()]|\([^()]*\))*)\)", replaced("relaxed flag", r"mutation::store_relaxed(\1)")),
]


def mutate_device(text):
    """(text, mutations of block reductions, mutations of flags, barriers between ranks and of blocks)."""
    flags, reductions = Mutator(), Mutator(100)
    text = flags.mutate("device.h", text, FLAG_RULES, text.index("WEFT_DEVICE bool Peers::poll"))
    begin = text.index("WEFT_DEVICE T block_reduce")
    text = reductions.mutate("device.h", text, REDUCTION_RULES, begin, text.index("}  // namespace detail", begin))
    return '#include "weft/mutation.h"\n' + text, reductions.mutations, flags.mutations


# ---- program.cpp ----------------------------------------------------------------------------------------------------


def signal_alternatives(program):
    """Waits and signals, left out or with another number; `program` says which signals are flags of several ranks."""
    flags = set(re.findall(r"constexpr weft::Signal (\w+)\{[^,}]*, \d+, \w", program))

    def alternatives(match):
        verb, signal, index = match.groups()
        is_flag = signal in flags
        out = [Alternative(f"missing {verb}" if is_flag else "lost event", "")]
        if verb == "signal":
            out.append(Alternative("wrong flag number", f"r.signal({signal}, {index} + 1);"))
        elif re.search(r"[a-z]", index):
            out.append(Alternative("wrong flag number", f"r.wait({signal}, std::max({index} - 1, 0));"))
        return out

    return alternatives


def grid_alternatives(match):
    """A plain kernel is right on any grid; one that waits for peers on any grid that fits."""
    blocks, threads = int(match["blocks"]), int(match["threads"])

    def grid(kind, expect, other, per_block=threads):
        return Alternative(kind, f"weft::Grid{{{other}, {per_block}}}", expect)

    if match["launch"] == "launch":
        others = {1, 2, 5, blocks * 7 + 3} - {blocks}
        return [grid("any grid", "same", other) for other in sorted(others)]
    most = 32 if threads <= 64 else 8  # as many threads as the sanitizer gets through in time
    fitting = [grid("any resident grid", "same", other) for other in (2, 5, most)]
    return [*fitting, grid("grid too large", "refused", 33), grid("grid too large", "refused", 3, 1024)]


def with_each_copy(text):
    """Replicated outputs also as the copy of each rank, so that all are compared; where the mesh has one axis."""
    axes = re.findall(r"constexpr weft::Axis (\w+)\{", text)
    if len(axes) != 1:
        return text
    begin = text.index("constexpr weft::Port kOutputs[]")
    end = text.index("};", begin)
    each = rf'\g<0>    {{"each_\1", \2, \3, {{.per_rank = {axes[0]}}}}},\n'
    ports = re.sub(r' *\{"(\w+)", (\{[\d, ]*\}), (\w+)\},\n', each, text[begin:end])
    return text[:begin] + ports + text[end:]


def mutate_program(mutator, text):
    rules = [
        (r"\br\.(wait|signal)\((\w+), ([^;]+)\);", signal_alternatives(text)),
        (r"\b(chunk|mb) >= (\d+)", lambda match: [Alternative("missing wait", f"{match[1]} >= {int(match[2]) + 1}")]),
        (r"\b(chunk|mb) % 2\b", replaced("wrong offset", r"(\1 + 1) % 2")),
        (r"r\.(?P<launch>launch|launch_resident)\(\w+, (?P<site>\{\.blocks = (?P<blocks>\d+), "
         r"\.threads = (?P<threads>\d+)\})", grid_alternatives),
    ]
    return '#include <algorithm>\n#include "weft/mutation.h"\n' + mutator.mutate("program.cpp", text, rules)


# ---- kernels --------------------------------------------------------------------------------------------------------


def other_peer(match):
    return [Alternative("wrong peer", f"{match[1]}[({match[2]} + 1) % ranks]")]


def peer_alternatives(match):
    return [Alternative("wrong peer", f"peers.at({peer}, {match[1]})") for peer in ("(p + 1) % ranks", "peers.index")]


def signal_of_kernel_alternatives(match):
    signal, index = match.groups()
    wrong = [] if index is None else [
        Alternative("wrong flag number", f"if (blockIdx.x == 0) peers.signal({signal}, {index} + 1);")]
    return [Alternative("missing signal", ""), *wrong]


def mutate_kernels(mutator, file, text):
    shared = re.findall(r"(\w+) = weft::(?:shared|step_room)<", text)
    # In a long loop many barriers come before what the last step read is written again.
    last = r"(?!\n  \})" if text.count("peers.block_barrier()") > 2 else ""
    rules = [
        (r"__syncthreads\(\);", left_out("dropped barrier")),
        (r"if \(!peers\.barrier\(\)\) return;|(?<=  )peers\.barrier\(\);", left_out("dropped barrier")),
        (r"if \(!peers\.barrier\(\)\) return false;", left_out("dropped barrier")),
        (rf"if \(!peers\.block_barrier\(\)\) return;{last}", left_out("dropped barrier")),
        (r"return peers\.barrier\(\);", replaced("dropped barrier", "return true;")),
        (r"if \([^()]*!peers\.wait\([^()]*\)\) return;", left_out("missing wait")),
        (r"if \(blockIdx\.x == 0\) peers\.signal\((\w+)(?:, (\w+))?\);", signal_of_kernel_alternatives),
        (r"\bchunk % 2\b", replaced("wrong offset", "(chunk + 1) % 2")),
        (r"peers\.at\(p, (\w+)\)", peer_alternatives),
        (r"peers\.at\(\(peers\.index \+ p\) % ranks, (\w+)\)", replaced("wrong peer", r"peers.at(peers.index, \1)")),
        (r"\b(\w+_at)\[(\d+)\](?=\[)", other_peer),
        (r"\b(\w+_index)(?= [*%])", replaced("wrong offset", r"(\1 ^ 1)")),
        *((rf"\b{name}\[([^\[\]]*)\]", replaced("shared index", rf"{name}[\1 + 1]")) for name in shared),
    ]
    text = mutator.mutate(file, text, rules)
    for begin, end in transposes(text):
        loads = [(r"(?<= = )(\w+)\[([^\[\]]+)\]", replaced("wrong offset", r"\1[\2 + 1]"))]
        text = mutator.mutate(file, text, loads, begin, end)
    return text


def transposes(text):
    """Where the bodies of kernels that only transpose begin and end."""
    return [match.span() for match in re.finditer(r"// Transpose \w+\n__global__[^{]*\{.*?\n\}\n", text, re.DOTALL)]
