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

 private:
  std::string offset_text(const Program& program, size_t buffer) const;
  std::string buffer_line(const Program& program, size_t buffer, size_t width) const;
  std::string message_text(const Message& message) const;

  const Plan& plan_;
  const ProgramNames& names_;
};

}  // namespace weftc
