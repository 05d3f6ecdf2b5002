// The declarations of an emitted program: axes, buffers, signals, weights, segments, transfers, ports.
#pragma once
#include "backend/program_names.h"
#include "backend/render.h"

namespace weftc {

/// What a program's text declares, as lines.
class Declarations {
 public:
  Declarations(const Plan& plan, const ProgramNames& names) : plan_(plan), names_(names) {}

  std::vector<std::string> axes() const;
  /// Buffers of one program in own memory, or all windows.
  std::vector<std::string> buffers(const Program& program, bool window) const;
  std::vector<std::string> signals() const;
  std::vector<std::string> transfers() const;
  std::vector<std::string> weights(const Program& program) const;
  std::string segments(const Program& program) const;
  /// Ports of the program, one each line; what their layouts need is appended to `layouts`.
  std::string ports(const Program& program, const std::vector<Port>& ports, const std::string& prefix,
                    std::vector<std::string>& layouts) const;
  /// Number of flags: the end of the last signal or transfer.
  std::string signal_count() const;
  /// Whether all ranks of the program are in the place.
  bool holds(const Program& program, PlaceId place) const;
  /// Where a segment begins in the images of a program, and in the file.
  int64_t image_begin(const Program& program, size_t segment) const;

 private:
  std::string offset_text(const Program& program, size_t buffer) const;
  std::string buffer_line(const Program& program, size_t buffer, size_t width) const;
  std::string message_text(const Message& message) const;

  const Plan& plan_;
  const ProgramNames& names_;
};

/// Bytes of a segment's slices in the weights file begin here (pack.h writes them there).
std::vector<int64_t> segment_files(const Plan& plan);
int64_t segment_begin(const Plan& plan, size_t segment);
/// Ranks that a segment's slices are for.
int segment_slices(const Plan& plan, const Segment& segment);
/// Elements of a weight as packed.
int64_t packed_elements(const Plan& plan, const Weight& weight);

}  // namespace weftc
