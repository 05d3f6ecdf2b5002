// The declarations of an emitted program: axes, buffers, signals, weights, segments, transfers and ports. Steps refer
// to their names. A step reads `add(r.team(), r[x], r[y])`, and the positions of x and y are in one place:
//
//   constexpr weft::Axis tp{.name = "tp", .size = 2, .stride = 1, .id = 0};
//   constexpr weft::Own<float> x {0, 16 * 768};          // offset in bytes, number of elements
//   constexpr weft::Own<float> y {x.end(), 16 * 768};    // an offset that follows from another is written so
//   constexpr weft::Signal ready{0, 4, tp};              // first flag, number of flags, and the ranks that share it
#pragma once
#include "backend/program_names.h"
#include "backend/render.h"

namespace weftc {

/// "weft::Own<float>": the type by which a buffer is declared.
std::string buffer_type(const Buffer& buffer);
/// Offset of a weight in the image of a program's ranks.
int64_t image_place(const Plan& plan, const Program& program, const Weight& weight);

/// The declarations in a program's text, one string for each line, without indentation.
class Declarations {
 public:
  Declarations(const Plan& plan, const ProgramNames& names) : plan_(plan), names_(names) {}

  /// `constexpr weft::Axis` for each axis of each place, and lists of ranks for places that are not all ranks in order.
  std::vector<std::string> axes() const;
  /// The buffers in the program's own memory, or all windows; a buffer comes after the one that its offset names.
  std::vector<std::string> buffers(const Program& program, bool window) const;
  /// Slots of flags are assigned in the order of the Plan's signals; the transfers' slots follow.
  std::vector<std::string> signals() const;
  /// For each transfer between places, a table of its messages and the transfer itself.
  std::vector<std::string> transfers() const;
  /// The weights of the program's segments, at their offsets in the image of its ranks (segments.h). Weights of layers
  /// that are a loop are declared together, with the first layer.
  std::vector<std::string> weights(const Program& program) const;
  /// The list of segments: the end of each in the image, and the position of its slices in the file if that does not
  /// follow directly.
  std::string segments(const Program& program) const;
  /// Ports of the program, one a line; declarations for their layouts are appended to `layouts`.
  std::string ports(const Program& program, const std::vector<Port>& ports, const std::string& prefix,
                    std::vector<std::string>& layouts) const;
  /// The names of the lengths that a request decides, and their limits.
  std::vector<std::string> lengths() const;
  /// The places from which the program's kernels read lengths: "{0, seq}", by number in the names.
  std::string length_slots(const Program& program) const;
  /// Number of flags: the end of the last signal or transfer.
  std::string signal_count() const;

 private:
  std::string offset_text(const Program& program, size_t buffer) const;
  std::string buffer_line(const Program& program, size_t buffer) const;
  std::vector<std::string> length_names() const;
  std::string length_text(const Length& length) const;
  std::string demanded_text(const Length& length) const;
  std::vector<std::string> demands() const;
  std::string message_text(const Message& message) const;

  const Plan& plan_;
  const ProgramNames& names_;
};

}  // namespace weftc
