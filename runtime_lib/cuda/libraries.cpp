// Finds cuBLASLt and NCCL: in WEFT_CUDA_LIBRARIES (folders, or the folder of the nvidia Python packages), beside the
// executable, then in the loader's search path.
#include "libraries.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "failure.h"

namespace weft {

namespace {

std::vector<std::string> folders() {
  std::vector<std::string> out;
  const char* list = getenv("WEFT_CUDA_LIBRARIES");
  const std::string given = list == nullptr ? "" : list;
  for (size_t begin = 0; begin < given.size();) {
    const size_t end = std::min(given.find(':', begin), given.size());
    const std::string folder = given.substr(begin, end - begin);
    for (const char* below : {"", "/lib", "/cu13/lib", "/nccl/lib", "/cublas/lib"}) out.push_back(folder + below + "/");
    begin = end + 1;
  }
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  const std::string executable(path, n > 0 ? size_t(n) : 0);
  out.push_back(executable.substr(0, executable.rfind('/') + 1));
  out.push_back("");
  return out;
}

/// A library in a named folder that cannot be opened is an error, since another version elsewhere is not intended.
void* open_handle(const char* name) {
  for (const std::string& folder : folders()) {
    const std::string path = folder + name;
    if (!folder.empty() && access(path.c_str(), R_OK) != 0) continue;
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    break;
  }
  fail(kEnvironment, "%s cannot be opened: %s; name its folder in WEFT_CUDA_LIBRARIES or LD_LIBRARY_PATH", name,
       dlerror());
}

struct Library {
  const char* name;
  void* handle;
};

/// "ncclSend": the function's name in the toolkit's headers.
#define WEFT_SYMBOL(function) WEFT_QUOTED(function)
#define WEFT_QUOTED(word) #word

template <class F>
void find(const Library& library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library.handle, name));
  if (function == nullptr) fail(kEnvironment, "%s is missing in %s: the library is too old", name, library.name);
}

const Library& nccl_library() {
  static const Library library{kNcclFile, open_handle(kNcclFile)};
  return library;
}

CublasLt load_cublaslt() {
  const Library library{kCublasLtFile, open_handle(kCublasLtFile)};
  CublasLt out;
  find(library, WEFT_SYMBOL(cublasLtGetVersion), out.version);
  find(library, WEFT_SYMBOL(cublasLtGetStatusString), out.status_text);
  find(library, WEFT_SYMBOL(cublasLtCreate), out.create);
  find(library, WEFT_SYMBOL(cublasLtDestroy), out.destroy);
  find(library, WEFT_SYMBOL(cublasLtMatmul), out.matmul);
  find(library, WEFT_SYMBOL(cublasLtMatmulAlgoGetHeuristic), out.heuristic);
  find(library, WEFT_SYMBOL(cublasLtMatmulDescCreate), out.create_matmul);
  find(library, WEFT_SYMBOL(cublasLtMatmulDescSetAttribute), out.set_matmul);
  find(library, WEFT_SYMBOL(cublasLtMatmulDescDestroy), out.destroy_matmul);
  find(library, WEFT_SYMBOL(cublasLtMatrixLayoutCreate), out.create_layout);
  find(library, WEFT_SYMBOL(cublasLtMatrixLayoutSetAttribute), out.set_layout);
  find(library, WEFT_SYMBOL(cublasLtMatrixLayoutDestroy), out.destroy_layout);
  find(library, WEFT_SYMBOL(cublasLtMatmulPreferenceCreate), out.create_preference);
  find(library, WEFT_SYMBOL(cublasLtMatmulPreferenceSetAttribute), out.set_preference);
  find(library, WEFT_SYMBOL(cublasLtMatmulPreferenceDestroy), out.destroy_preference);
  return out;
}

Nccl load_nccl() {
  const Library& library = nccl_library();
  Nccl out;
  find(library, WEFT_SYMBOL(ncclGetVersion), out.version);
  int version = 0;
  out.version(&version);
  if (version < NCCL_VERSION_CODE)
    fail(kEnvironment, "%s is version %d.%d.%d; the program needs %d.%d.%d or later", library.name, version / 10000,
         version / 100 % 100, version % 100, NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
  find(library, WEFT_SYMBOL(ncclGetErrorString), out.error_text);
  find(library, WEFT_SYMBOL(ncclGetUniqueId), out.unique_id);
  find(library, WEFT_SYMBOL(ncclCommInitRank), out.init_rank);
  find(library, WEFT_SYMBOL(ncclCommAbort), out.abort);
  find(library, WEFT_SYMBOL(ncclCommDestroy), out.destroy);
  find(library, WEFT_SYMBOL(ncclCommGetAsyncError), out.async_error);
  find(library, WEFT_SYMBOL(ncclAllReduce), out.all_reduce);
  find(library, WEFT_SYMBOL(ncclReduceScatter), out.reduce_scatter);
  find(library, WEFT_SYMBOL(ncclAllGather), out.all_gather);
  find(library, WEFT_SYMBOL(ncclBroadcast), out.broadcast);
  find(library, WEFT_SYMBOL(ncclReduce), out.reduce);
  find(library, WEFT_SYMBOL(ncclSend), out.send);
  find(library, WEFT_SYMBOL(ncclRecv), out.recv);
  find(library, WEFT_SYMBOL(ncclGroupStart), out.group_start);
  find(library, WEFT_SYMBOL(ncclGroupEnd), out.group_end);
  find(library, WEFT_SYMBOL(ncclMemAlloc), out.mem_alloc);
  find(library, WEFT_SYMBOL(ncclMemFree), out.mem_free);
  return out;
}

}  // namespace

const CublasLt& open_cublaslt() {
  static const CublasLt table = load_cublaslt();
  return table;
}

const Nccl& open_nccl() {
  static const Nccl table = load_nccl();
  return table;
}

void* nccl_symbol(const char* name) { return dlsym(nccl_library().handle, name); }

}  // namespace weft
