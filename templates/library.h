// $summary
//
//@ for port in ports
// $port.line
//@ end
//
// Functions give 0, or 1 (a wrong argument, a null pointer too), 6 (the environment), 124 (a wait timed out); $error says
// what is wrong. After 6 and 124 there is only $destroy. One thread at a time may call the functions of one model.
#ifndef $guard
#define $guard

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct $type $type;

// Starts the ranks as threads of this process, with so many threads each (at most 1024); 0: the cores over the ranks.
// The model is made also where that fails: then $error has a text, and every function fails. NULL: there is no memory.
$type* $create(int threads);
// This process is one rank of a job that mpirun, srun or torchrun started on one machine. Every rank makes its model.
// Only rank 0 is given inputs, runs and has outputs; the others follow it, and their $destroy waits for its own.
$type* $create_rank(int threads);
void $destroy($type* model);

// Copies a whole tensor, row-major, of the type above; bf16 as bits. It stays the input until it is set anew. A state
// may be set too, before a run.
int $set_input($type* model, const char* name, const void* data, size_t bytes, const int64_t* shape, int ndim);
// Runs one invocation, or one generation. States are those that the last one left. After an input that only the program finds wrong,
// they begin anew.
int $run($type* model);
// Gives an output of the last run. It lies in the model's memory until the next run.
int $get_output($type* model, const char* name, const void** data, size_t* bytes, const int64_t** shape, int* ndim);
// States begin anew.
int $reset($type* model);
// Says what was wrong when a function last failed; never null.
const char* $error(const $type* model);

#ifdef __cplusplus
}
#endif
#endif
