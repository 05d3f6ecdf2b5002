// Makes a model with so many threads, says what is wrong, and calls each function with null pointers.
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

int main(int count, char** words) {
  model_model* model = model_create(count > 1 ? atoi(words[1]) : 0);
  const void* data;
  size_t bytes;
  const int64_t* shape;
  int ndim;
  printf("made %d: %s\n", model != NULL, model_error(model));
  printf("%d", model_set_input(NULL, "x", NULL, 0, NULL, 0) + model_run(NULL) + model_reset(NULL) +
                   model_get_output(NULL, "y", &data, &bytes, &shape, &ndim));
  printf(" %d %d", model_set_input(model, NULL, NULL, 0, NULL, 0), model_set_input(model, "x", NULL, 8, NULL, 1));
  printf(" %d %d: %s\n", model_get_output(model, NULL, &data, &bytes, &shape, &ndim),
         model_get_output(model, "y", NULL, NULL, NULL, NULL), model_error(NULL));
  model_destroy(model);
  model_destroy(NULL);
  return 0;
}
