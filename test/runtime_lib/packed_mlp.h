// The weights of the MLP of programs.cpp as a packer would write them, and files as text.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime_lib/src/checksum.h"
#include "test/runtime_lib/program_run.h"
#include "weft/contract.h"
#include "weft/image.h"
#include "weft/random.h"
#include "weft/types.h"

namespace weft::test {

inline void write_whole_file(const std::string& file, const std::string& bytes) {
  FILE* out = fopen(file.c_str(), "wb");
  REQUIRE(out != nullptr);
  fwrite(bytes.data(), 1, bytes.size(), out);
  fclose(out);
}

inline std::string read_whole_file(const std::string& file) {
  std::string out;
  FILE* in = fopen(file.c_str(), "rb");
  if (in == nullptr) return out;
  char block[65536];
  for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;) out.append(block, n);
  fclose(in);
  return out;
}

inline constexpr int64_t kMlpRows = 8, kMlpWidth = 16, kMlpHidden = 32;

inline float mlp_weight(int which, int64_t i) { return Random{7, uint32_t(which)}.uniform(i) - 0.5f; }

/// The slices of the MLP's weights for `ranks` ranks, one after the other.
inline std::string packed_slices(int ranks) {
  std::vector<float> w1, w2;
  for (int64_t i = 0; i < kMlpWidth * kMlpHidden; ++i) w1.push_back(mlp_weight(1, i)), w2.push_back(mlp_weight(2, i));
  const int64_t part = kMlpHidden / ranks;
  std::string out;
  for (int r = 0; r < ranks; ++r) {
    const auto add = [&](const Unpacked<float>& from, int64_t n, int64_t k, int64_t align) {
      std::vector<float> panels(size_t(packed_count(n, k)));
      pack_panels(from, n, k, panels.data());
      out.append(reinterpret_cast<const char*>(panels.data()), panels.size() * sizeof(float));
      out.resize(size_t(round_up(int64_t(out.size()), align)));
    };
    add({w1.data() + r * part, 1, kMlpHidden}, part, kMlpWidth, kAlign);
    add({w2.data() + r * part * kMlpWidth, 1, kMlpWidth}, kMlpWidth, part, kPage);
  }
  return out;
}

inline std::string plain_bytes_of(const auto& value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

/// The bytes that a packer puts into the section of a program, or into a file of weights: see weft/image.h.
inline std::string image_of(int ranks, const std::string& manifest, const std::string& weights) {
  std::string checksums;
  const uint64_t length = weights.size() / size_t(ranks);
  for (uint64_t r = 0; r < uint64_t(ranks); ++r)
    checksums += plain_bytes_of(Checksum{r * length, length, crc32c(0, weights.data() + r * length, length)});
  Footer footer = {};
  std::copy(std::begin(kImageMagic), std::end(kImageMagic), footer.magic);
  footer.weights_bytes = weights.size();
  footer.manifest_offset = weights.size();
  footer.manifest_bytes = manifest.size();
  footer.checksums_offset = footer.manifest_offset + manifest.size();
  footer.checksums = uint64_t(ranks);
  const std::string sealed = manifest + checksums + plain_bytes_of(footer).substr(0, offsetof(Footer, crc));
  footer.crc = crc32c(0, sealed.data(), sealed.size());
  return weights + manifest + checksums + plain_bytes_of(footer);
}

inline std::string image_of(int ranks, const std::string& manifest) {
  return image_of(ranks, manifest, packed_slices(ranks));
}

inline std::string packed_weights(int ranks) { return image_of(ranks, ""); }

}  // namespace weft::test
