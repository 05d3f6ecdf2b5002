// Positions on the board follow from the executable, so that all ranks agree on them.
#include "request_board.h"

#include <algorithm>
#include <cstring>

#include "nearest.h"
#include "npy.h"

namespace weft {

RequestBoard::RequestBoard(const Executable& executable, char* memory)
    : executable_(executable),
      ranks_(executable.world),
      memory_(memory),
      ports_(distinct_ports(executable, &Program::inputs)) {
  std::erase_if(ports_, [&](const Port* port) { return is_fed(executable, port->name); });
  inputs_ = ports_.size();
  if (executable.generation != nullptr) {
    text_ = std::make_shared<const TextPorts>(executable);
    ports_.push_back(&text_->prompt);
    for (const Setting& setting : weft::settings()) ports_.push_back(&setting.port);
  }
  constexpr int64_t kLine = 64;
  complaints_ = round_up(int64_t{sizeof(Order)}, kLine);
  given_ = complaints_ + int64_t{2} * ranks_ * int64_t{RankBase::kComplaintBytes};
  end_ = given_ + int64_t(ports_.size() * sizeof(Given));
  for (const Port* port : ports_) {
    elements_.push_back(round_up(end_, kLine));
    end_ = elements_.back() + port_bytes(*port);
  }
}

char* RequestBoard::complaint(Phase phase, int rank) const {
  return memory_ + complaints_ + (int(phase) * ranks_ + rank) * int64_t{RankBase::kComplaintBytes};
}

std::string RequestBoard::first_complaint(Phase phase) const {
  for (int r = 0; r < ranks_; ++r)
    if (*complaint(phase, r) != '\0') return complaint(phase, r);
  return "";
}

size_t RequestBoard::find(const std::string& name) const {
  std::vector<std::string> names;
  for (const Port* port : ports_) {
    if (name == port->name) return names.size();
    names.emplace_back(port->name);
  }
  if (names.empty()) fail(kWrongInput, "there is no input '%s': the program has none", name.c_str());
  fail(kWrongInput, "there is no input '%s'%s; there are: %s", name.c_str(), did_you_mean(name, names).c_str(),
       list_text(names).c_str());
}

bool RequestBoard::is_required(size_t port) const {
  return port <= inputs_ && !is_state_input(executable_, ports_[port]->name);
}

void RequestBoard::clear() const {
  for (size_t p = 0; p < ports_.size(); ++p) given(p).is_given = false;
}

void RequestBoard::clear_inputs() const {
  for (size_t p = 0; p < inputs_; ++p) given(p).is_given = false;
}

std::map<std::string, double> RequestBoard::settings() const {
  std::map<std::string, double> out;
  for (size_t p = inputs_ + 1; p < ports_.size(); ++p) {
    if (!is_given(p)) continue;
    const Port& port = *ports_[p];
    const char* at = tensor(p).elements;
    const double value =
        port.dtype == DType::F64 ? *reinterpret_cast<const double*>(at) : double(*reinterpret_cast<const int64_t*>(at));
    check_setting(*find_setting(port.name), value, kWrongInput, text("'%s'", port.name));
    out[port.name] = value;
  }
  return out;
}

void RequestBoard::give(size_t port, const std::vector<int64_t>& shape, const char* elements) const {
  given(port).is_given = true;
  std::copy(shape.begin(), shape.end(), given(port).shape);
  const int64_t bytes = tensor_bytes(ports_[port]->dtype, shape);
  if (bytes > 0) memcpy(memory_ + elements_[port], elements, size_t(bytes));
}

WholeTensor RequestBoard::tensor(size_t port) const {
  const int64_t* dims = given(port).shape;
  return {ports_[port]->name, {dims, dims + file_shape(*ports_[port]).size()}, memory_ + elements_[port]};
}

}  // namespace weft
