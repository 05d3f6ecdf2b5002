// The C functions of $header, on top of the runtime's class.
#include "$header"

#include "weft/library.h"

namespace library::$name {
const weft::Executable& executable();  // of program.cpp
}

struct $type {
  weft::Library library;
};

#define WEFT_EXPORTED __attribute__((visibility("default")))
extern "C" {

WEFT_EXPORTED $type* $create(int threads) { return new $type{{library::$name::executable(), threads, weft::Library::Ranks::Threads}}; }
WEFT_EXPORTED $type* $create_rank(int threads) {
  return new $type{{library::$name::executable(), threads, weft::Library::Ranks::OneOfJob}};
}
WEFT_EXPORTED void $destroy($type* model) { delete model; }

WEFT_EXPORTED int $set_input($type* model, const char* name, const void* data, size_t bytes, const int64_t* shape,
                             int ndim) {
  return model->library.set_input(name, {data, bytes, shape, ndim});
}
WEFT_EXPORTED int $run($type* model) { return model->library.run(); }
WEFT_EXPORTED int $get_output($type* model, const char* name, const void** data, size_t* bytes, const int64_t** shape,
                              int* ndim) {
  weft::TensorView tensor{};
  const int code = model->library.get_output(name, &tensor);
  if (code == 0) *data = tensor.data, *bytes = tensor.bytes, *shape = tensor.shape, *ndim = tensor.ndim;
  return code;
}
WEFT_EXPORTED int $reset($type* model) { return model->library.reset(); }
WEFT_EXPORTED const char* $error(const $type* model) { return model->library.error(); }

}  // extern "C"
