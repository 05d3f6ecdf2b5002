// Continues a text of token numbers with the likeliest next ones, by a library that `--emit library` made of GPT-2 with its
// cache as states (samples/gpt2/decode.yaml):
//
//   ./decode COUNT TOKEN...
#include <gpt2.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(gpt2_model* model) {
  fprintf(stderr, "decode: %s\n", gpt2_error(model));
  gpt2_destroy(model);
  return 1;
}

/// The likeliest token after the last one of [1, tokens, words].
static int64_t likeliest(const float* logits, const int64_t* shape) {
  const float* last = logits + (shape[1] - 1) * shape[2];
  int64_t best = 0;
  for (int64_t word = 1; word < shape[2]; ++word)
    if (last[word] > last[best]) best = word;
  return best;
}

int main(int argc, char** argv) {
  if (argc < 3) return fprintf(stderr, "usage: decode COUNT TOKEN...\n"), 2;
  const int64_t given = argc - 2;
  int64_t* tokens = malloc((size_t)given * sizeof *tokens);
  for (int64_t i = 0; i < given; ++i) tokens[i] = atoll(argv[i + 2]);

  gpt2_model* model = gpt2_create(0);
  int64_t shape[] = {1, given};  // first the prompt, then a token each: the states hold what came before
  for (int left = atoi(argv[1]); left > 0; --left, shape[1] = 1) {
    const void* logits;
    const int64_t* logits_shape;
    size_t bytes;
    int ndim;
    if (gpt2_set_input(model, "input_ids", tokens, (size_t)shape[1] * sizeof *tokens, shape, 2) != 0 ||
        gpt2_run(model) != 0 || gpt2_get_output(model, "logits", &logits, &bytes, &logits_shape, &ndim) != 0) {
      free(tokens);
      return fail(model);
    }
    tokens[0] = likeliest(logits, logits_shape);
    printf("%lld\n", (long long)tokens[0]);
  }
  free(tokens);
  gpt2_destroy(model);
  return 0;
}
