// The C functions of $header, on top of the runtime's class.
#include "$header"

#include <new>

#include "weft/library.h"

namespace library::$name {
const weft::Executable& executable();  // of program.cpp
}

struct $type {
  weft::Library library;
};

namespace {

constexpr int kWrongInput = 1;

$type* create(int threads, weft::Library::Ranks ranks) {
  return new (std::nothrow) $type{{library::$name::executable(), threads, ranks}};
}

}  // namespace

#define WEFT_EXPORTED __attribute__((visibility("default")))
extern "C" {

WEFT_EXPORTED $type* $create(int threads) { return create(threads, weft::Library::Ranks::Threads); }
WEFT_EXPORTED $type* $create_rank(int threads) { return create(threads, weft::Library::Ranks::OneOfJob); }
WEFT_EXPORTED void $destroy($type* model) { delete model; }

WEFT_EXPORTED int $set_input($type* model, const char* name, const void* data, size_t bytes, const int64_t* shape,
                             int ndim) {
  return model == nullptr ? kWrongInput : model->library.set_input(name, {data, bytes, shape, ndim});
}
WEFT_EXPORTED int $run($type* model) { return model == nullptr ? kWrongInput : model->library.run(); }
WEFT_EXPORTED int $get_output($type* model, const char* name, const void** data, size_t* bytes, const int64_t** shape,
                              int* ndim) {
  if (model == nullptr) return kWrongInput;
  weft::TensorView tensor{};
  const bool has_places = data != nullptr && bytes != nullptr && shape != nullptr && ndim != nullptr;
  const int code = model->library.get_output(name, has_places ? &tensor : nullptr);
  if (code == 0) *data = tensor.data, *bytes = tensor.bytes, *shape = tensor.shape, *ndim = tensor.ndim;
  return code;
}
WEFT_EXPORTED int $reset($type* model) { return model == nullptr ? kWrongInput : model->library.reset(); }
WEFT_EXPORTED const char* $error(const $type* model) {
  return model == nullptr ? "there is no model: it is NULL" : model->library.error();
}

}  // extern "C"
