// The ranks of a library are threads that answer requests (service.h); a call of the library is a request.
#include "weft/library.h"

#include <unistd.h>

#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "checks.h"
#include "launch.h"
#include "level.h"
#include "mapping.h"
#include "meeting.h"
#include "nearest.h"
#include "npy.h"
#include "npy_elements.h"
#include "npy_strings.h"
#include "rank_maker.h"
#include "service.h"
#include "variants.h"

namespace weft {

namespace {

constexpr int kMostThreads = 1024;

Options options_of(int threads) {
  if (threads < 0 || threads > kMostThreads)
    fail(kWrongInput, "%d threads: a number from 0 to %d is expected; 0 means the cores over the ranks", threads,
         kMostThreads);
  Options out;
  out.threads = threads;
  out.ranks_as_threads = out.serves = true;
  return out;
}

/// The path of the library that contains this object and its weights. (dladdr gives the path by which it was loaded,
/// which may be relative to an earlier working directory.)
std::string file_of(const void* object) {
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(fopen("/proc/self/maps", "re"), fclose);
  const auto wanted = reinterpret_cast<uintptr_t>(object);
  char line[PATH_MAX + 128];
  while (maps && fgets(line, sizeof line, maps.get()) != nullptr) {
    unsigned long begin = 0, end = 0;
    const char* path = strchr(line, '/');
    if (path == nullptr || sscanf(line, "%lx-%lx", &begin, &end) != 2 || wanted < begin || wanted >= end) continue;
    return {path, strcspn(path, "\n")};
  }
  fail(kEnvironment, "the library's own file cannot be found");
}

/// The rank that the launcher assigned to this process.
std::optional<Launched> rank_of_job(const Executable& executable) {
  std::optional<Launched> launched = find_launcher(getenv);
  if (!launched) fail(kEnvironment, "no launcher has started this process as a rank");
  if (launched->size != executable.world)
    fail(kEnvironment, "the launcher started %d ranks; the program has %d", launched->size, executable.world);
  if (launched->machines != Machines::One)
    fail(kEnvironment, "the ranks of a library share the memory of one machine, and this job is on several");
  return launched;
}

struct Output {
  std::vector<int64_t> shape;
  std::vector<char> bytes;
};

}  // namespace

/// The ranks, and the one request between their rank 0 and the thread that calls the library.
class Library::Crew final : public Customer {
 public:
  Crew(const Executable& executable, int threads, Library::Ranks ranks)
      : whole_(executable),
        executable_(whole_.get()),
        options_(options_of(threads)),
        file_("", false, file_of(&executable)),
        launched_(ranks == Library::Ranks::OneOfJob ? rank_of_job(executable_) : std::nullopt),
        target_(open_target(executable_, launched_ ? 1 : executable_.world)),
        shape_(world_shape(executable_, options_)),
        world_(make_world()),
        board_(board_of(executable_, world_)),
        look_out_(world_),
        is_set_(board_.ports().size()) {
    try {
      for (int r = 0; r < executable_.world; ++r)
        if (!launched_ || launched_->rank == r) threads_.emplace_back([this, r] { run_rank(r); });
      wait_for_ranks();
    } catch (const std::exception& error) {  // no more threads
      lose_rank(int(threads_.size()), {kEnvironment, error.what()});
      join();
      throw;
    } catch (const Failure&) {
      join();
      throw;
    }
  }
  ~Crew() override {
    if (leads()) request(Order::Kind::Stop);
    join();
  }

  void set_input(const char* name, const TensorView& tensor) {
    const size_t p = board_.find(name);
    const Port& port = *board_.ports()[p];
    if (tensor.ndim < 0 || tensor.ndim > kMaxPortDims + 1) fail(kWrongInput, "'%s': %d dimensions", name, tensor.ndim);
    const std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
    check_shape(port, shape, text("'%s'", name));
    if (const auto needed = size_t(tensor_bytes(port.dtype, shape)); tensor.bytes != needed)
      fail(kWrongInput, "'%s': %zu bytes; shape %s of %s has %zu", name, tensor.bytes, shape_text(shape).c_str(),
           dtype_name(port.dtype), needed);
    if (leads()) give(p, shape, {static_cast<const char*>(tensor.data), tensor.bytes});
    is_set_[p] = true;
  }

  void run() {
    for (size_t p = 0; leads() && p < board_.ports().size(); ++p)
      if (const Port& port = *board_.ports()[p]; !is_set_[p] && board_.is_required(p))
        fail(kWrongInput, "input '%s' (%s, %s) is not set", port.name, dtype_name(port.dtype),
             port_shape_text(port).c_str());
    call(Order::Kind::Run);
  }
  void reset() { call(Order::Kind::Close); }

  TensorView output(const char* name) const {
    const auto found = outputs_.find(name);
    std::vector<std::string> names;
    for (const auto& entry : outputs_) names.push_back(entry.first);
    if (!leads()) fail(kWrongInput, "rank 0 of the job has the outputs, and this is rank %d", launched_->rank);
    if (names.empty()) fail(kWrongInput, "there is no output yet: nothing has run");
    if (found == outputs_.end())
      fail(kWrongInput, "there is no output '%s'%s; there are: %s", name, did_you_mean(name, names).c_str(),
           list_text(names).c_str());
    const Output& out = found->second;
    return {out.bytes.data(), out.bytes.size(), out.shape.data(), int(out.shape.size())};
  }

  // Called by rank 0.

  void post_next(const RequestBoard&) override {
    std::unique_lock lock(mutex_);
    is_waiting_ = true;
    changed_.notify_all();
    while (!asked_) {
      changed_.wait_for(lock, std::chrono::milliseconds(100));
      look_out_.look();
    }
    is_waiting_ = false;
    constexpr int kOnlySession = 0;
    board_.order() = {*asked_, kOnlySession};
    asked_.reset();
  }
  void take(const Port& port, const WholeTensor& tensor) override {
    const int64_t bytes = tensor_bytes(port.dtype, tensor.shape);
    outputs_[tensor.name] = {tensor.shape, {tensor.elements, tensor.elements + bytes}};
  }
  void finish() override {
    if (board_.order().kind == Order::Kind::Run) board_.clear_inputs();
  }
  /// Inputs that were given remain for the next run.
  void refuse(const std::string& complaint, bool) override { complaint_ = complaint; }

 private:
  World make_world() {
    if (!launched_) memory_ = Mapping::zeroed(World::bytes_of(shape_));
    World made = launched_ ? meet(shape_, *launched_, agreement_of(file_.build(), shape_), options_.timeout)
                           : World(shape_, memory_.data());
    if (launched_) memory_ = Mapping(made.memory(), World::bytes_of(shape_));
    made.manifest = file_.manifest();
    return made;
  }

  /// Bytes that are not values of the type are refused, as in files.
  void give(size_t p, const std::vector<int64_t>& shape, std::string_view bytes) const {
    const Port& port = *board_.ports()[p];
    if (port.dtype == DType::String) {
      check_strings(bytes, text("'%s'", port.name));
      return board_.give(p, shape, bytes.data());
    }
    const NpyHeader header{npy_type(port.dtype), false, shape, 0};
    if (is_stored_as(header, port.dtype)) return board_.give(p, shape, bytes.data());
    board_.give(p, shape, converted_elements(header, bytes, port.dtype, text("'%s'", port.name)).data());
  }

  /// Calls of other ranks of a job do nothing: their ranks follow rank 0.
  bool leads() const { return !launched_ || launched_->rank == 0; }

  void run_rank(int number) {
    try {
      world_.rank(number).pid.store(getpid());
      const std::unique_ptr<RankBase> rank = make_rank(*target_, executable_, options_, file_, world_, number);
      answer_requests(*rank, options_, number == 0 ? this : nullptr);
    } catch (const Failure& failure) {
      lose_rank(number, failure);
    } catch (const std::exception& error) {
      lose_rank(number, {kEnvironment, error.what()});
    }
  }
  void lose_rank(int number, const Failure& failure) {
    if (!failure.text.empty()) world_.set_failure(number, failure.code, failure.text);
    const std::lock_guard lock(mutex_);
    if (failure_.text.empty()) failure_ = failure;
    changed_.notify_all();
  }

  void request(Order::Kind kind) {
    const std::lock_guard lock(mutex_);
    asked_ = kind;
    changed_.notify_all();
  }
  /// Until rank 0 waits for a request, so that the last one is done.
  void wait_for_ranks() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !leads() || (is_waiting_ && !asked_) || failure_.code != kOk; });
    if (failure_.code != kOk) throw Failure{failure_.code, failure_.text.empty() ? "a rank has failed" : failure_.text};
  }
  void call(Order::Kind kind) {
    complaint_.clear();
    if (kind == Order::Kind::Run) outputs_.clear();
    if (leads()) request(kind);
    wait_for_ranks();
    if (!complaint_.empty()) fail(kWrongInput, "%s", complaint_.c_str());
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const WholeExecutable whole_;
  const Executable& executable_;  // of it
  const Options options_;
  ImageFile file_;
  const std::optional<Launched> launched_;  // this process alone, of a job
  const std::unique_ptr<Target> target_;
  const WorldShape shape_;
  Mapping memory_;
  World world_;
  const RequestBoard board_;
  LookOut look_out_;
  std::vector<bool> is_set_;  // by port of the board: some time
  std::map<std::string, Output> outputs_;
  std::string complaint_;  // of the last call

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Order::Kind> asked_;
  bool is_waiting_ = false;
  Failure failure_{kOk, ""};
  std::vector<std::thread> threads_;
};

/// No exception leaves the library. Any failure other than wrong input has ended the ranks.
template <class Action>
int Library::guarded(const Action& action) {
  if (lost_ != kOk) return error_ = lost_text_, lost_;
  try {
    action();
    return kOk;
  } catch (const Failure& failure) {
    error_ = failure.text;
    if (failure.code != kWrongInput) lose(failure.code);
    return failure.code;
  } catch (const std::exception& error) {
    error_ = error.what();
    return lose(kEnvironment);
  }
}

int Library::lose(int code) {
  lost_text_ = error_;
  return lost_ = code;
}

/// Pointers come from C, where nothing else says that they are there.
static void demand(const void* pointer, const char* what) {
  if (pointer == nullptr) fail(kWrongInput, "%s is NULL", what);
}

Library::Library(const Executable& executable, int threads, Ranks ranks, Level level) {
  const int code = guarded([&] {
    check_level({level, &executable});
    crew_ = std::make_unique<Crew>(executable, threads, ranks);
  });
  if (code != kOk) lose(code);  // wrong arguments make no model either
}
Library::~Library() = default;

int Library::set_input(const char* name, const TensorView& tensor) {
  return guarded([&] {
    demand(name, "the name of the input");
    if (tensor.bytes > 0) demand(tensor.data, "the data of the input");
    if (tensor.ndim > 0) demand(tensor.shape, "the shape of the input");
    crew_->set_input(name, tensor);
  });
}
int Library::run() {
  return guarded([&] { crew_->run(); });
}
int Library::get_output(const char* name, TensorView* tensor) {
  return guarded([&] {
    demand(name, "the name of the output");
    demand(tensor, "the place for the output");
    *tensor = crew_->output(name);
  });
}
int Library::reset() {
  return guarded([&] { crew_->reset(); });
}

}  // namespace weft
