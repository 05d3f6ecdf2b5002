// Flags that all ranks need alike are a table. Those that only rank 0 looks at, or that each may have as it likes
// (threads, a time-out), are not in it; of folders only whether they are given matters, since rank 0 writes the files.
#include "agreement.h"

#include <cstring>
#include <iterator>

#include "failure.h"

namespace weft {

namespace {

/// FNV-1a over values of any kind.
class Hash {
 public:
  Hash& add(std::string_view bytes) {
    add(uint64_t{bytes.size()});
    for (const char c : bytes) mix(uint8_t(c));
    return *this;
  }
  Hash& add(uint64_t number) {
    for (int i = 0; i < 8; ++i) mix(uint8_t(number >> (8 * i)));
    return *this;
  }
  Hash& add(double number) {
    uint64_t bits = 0;
    memcpy(&bits, &number, sizeof bits);
    return add(bits);
  }
  uint64_t value() const { return hash_; }

 private:
  void mix(uint8_t byte) { hash_ = (hash_ ^ byte) * 1099511628211u; }

  uint64_t hash_ = 14695981039346656037u;
};

template <class Value>
uint64_t names_in(const std::map<std::string, Value>& values) {
  Hash hash;
  for (const auto& entry : values) hash.add(entry.first);
  return hash.value();
}

uint64_t settings_in(const Options& options) {
  Hash hash;
  for (const auto& [name, value] : options.settings) hash.add(name).add(value);
  return hash.value();
}

/// A flag, and what of it must be alike.
struct Agreed {
  const char* flag;
  uint64_t (*value)(const Options& options);
};
constexpr Agreed kAgreed[] = {
    {"--input", [](const Options& o) { return names_in(o.inputs); }},
    {"--random-inputs", [](const Options& o) { return o.random_inputs ? Hash().add(o.seed).value() : 0; }},
    {"--output-dir", [](const Options& o) { return uint64_t{!o.output_dir.empty()}; }},
    {"--iterations", [](const Options& o) { return uint64_t(o.iterations); }},
    {"--warmup", [](const Options& o) { return uint64_t(o.warmup); }},
    {"--overlap", [](const Options& o) { return uint64_t{o.measures_overlap}; }},
    {"--trace", [](const Options& o) { return uint64_t{!o.trace.empty()}; }},
    {"--load-state", [](const Options& o) { return uint64_t{!o.load_state.empty()}; }},
    {"--save-state", [](const Options& o) { return uint64_t{!o.save_state.empty()}; }},
    {"--serve", [](const Options& o) { return uint64_t{o.serves}; }},
    {"--no-generate", [](const Options& o) { return uint64_t{o.no_generate}; }},
    {"--data", [](const Options& o) { return names_in(o.data); }},
    {"--eval-data", [](const Options& o) { return names_in(o.eval_data); }},
    {"--eval-every", [](const Options& o) { return uint64_t(o.eval_every); }},
    {"--steps", [](const Options& o) { return uint64_t(o.steps); }},
    {"--epochs", [](const Options& o) { return uint64_t(o.epochs); }},
    {"--shuffle", [](const Options& o) { return o.shuffles ? Hash().add(o.shuffle_seed).value() : 0; }},
    {"--checkpoint", [](const Options& o) { return uint64_t{!o.checkpoint.empty()}; }},
    {"--every", [](const Options& o) { return uint64_t(o.every); }},
    {"--resume", [](const Options& o) { return uint64_t{!o.resume.empty()}; }},
    {"--check-nan", [](const Options& o) { return uint64_t{o.check_nan}; }},
    {"--check", [](const Options& o) { return uint64_t{o.check}; }},
    {"a flag of the generation, such as --max-new or --seed", settings_in},
};
static_assert(std::size(kAgreed) <= Agreement::kMostFlags);

uint64_t hash_of(const WorldShape& shape) {
  Hash hash;
  for (const int64_t n : {int64_t{shape.ranks}, int64_t{shape.streams}, int64_t{shape.signals}, shape.window_bytes,
                          shape.staging_bytes, int64_t{shape.notes}})
    hash.add(uint64_t(n));
  return hash.value();
}

}  // namespace

Agreement agreement_of(uint64_t build, const WorldShape& shape) {
  Agreement out;
  out.build = build;
  out.shape = hash_of(shape);
  return out;
}

Agreement agreement_of(uint64_t build, const LevelProgram& program, const WorldShape& shape, const Options& options) {
  Agreement out = agreement_of(build, shape);
  out.level = int32_t(program.level);
  out.bfloat_products = has_bfloat_products(program);
  for (size_t i = 0; i < std::size(kAgreed); ++i) out.flags[i] = kAgreed[i].value(options);
  return out;
}

Disagreement compare(const std::string& one, const Agreement& of_one, const std::string& other,
                     const Agreement& of_other) {
  if (of_one.build != of_other.build)
    return {kEnvironment, text("%s runs another program than %s: another build of the model, or other weights",
                               one.c_str(), other.c_str())};
  if (of_one.level != of_other.level || of_one.bfloat_products != of_other.bfloat_products)
    return {kEnvironment, text("%s runs its kernels for other CPUs than %s (--arch)", one.c_str(), other.c_str())};
  std::string flags;
  for (size_t i = 0; i < std::size(kAgreed); ++i)
    if (of_one.flags[i] != of_other.flags[i]) flags += (flags.empty() ? "" : ", ") + std::string(kAgreed[i].flag);
  if (!flags.empty())
    return {kUsage, text("%s was started with other flags than %s: give all ranks the same %s", one.c_str(),
                         other.c_str(), flags.c_str())};
  if (of_one.shape != of_other.shape)
    return {kEnvironment, text("%s and %s share another amount of memory: they were started with other flags",
                               one.c_str(), other.c_str())};
  return {};
}

}  // namespace weft
