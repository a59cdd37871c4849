/* The library for whole models: loads one, answers a prompt as it comes, and draws a few tokens by itself.
 *
 *   consumer_model [MODEL]        without MODEL the demo model that is installed beside the library */

#include <rocmforge/rocmforge.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, rocmforge_last_error());
  return 1;
}

/* Every piece is whole characters. Returning 1 would end the answer here. */
static int show(const char* piece, size_t bytes, void* user) {
  (void)user;
  fwrite(piece, 1, bytes, stdout);
  return 0;
}

/* Goes on with a text, token by token: the logits could be changed, or another way to draw be used, between the two calls. */
static int continue_text(rocmforge_model* model, const char* text, size_t bytes) {
  const char* const options[] = {"temp=0.8", "seed=7", NULL};
  int32_t tokens[64];
  size_t count = 0;
  rocmforge_sequence* sequence = NULL;
  if (rocmforge_tokenize(model, text, bytes, 0, tokens, 32, &count) != ROCMFORGE_OK || count > 32) {
    return fail("tokenize");
  }
  if (rocmforge_sequence_new(model, options, &sequence) != ROCMFORGE_OK) {
    return fail("sequence");
  }
  size_t added = 0;
  while (count + 1 < 48) {
    if (rocmforge_sequence_append(sequence, tokens + added, count - added, NULL) != ROCMFORGE_OK ||
        rocmforge_sequence_sample(sequence, &tokens[count]) != ROCMFORGE_OK) {
      rocmforge_sequence_free(sequence);
      return fail("sequence");
    }
    added = count++;
  }
  rocmforge_sequence_free(sequence);
  char* whole = NULL;
  if (rocmforge_detokenize(model, tokens, count, 0, &whole, NULL) != ROCMFORGE_OK) {
    return fail("detokenize");
  }
  printf("%s\n", whole);
  rocmforge_free(whole);
  return 0;
}

int main(int argc, char** argv) {
  const char* const load_options[] = {"context=1024", NULL};
  const char* const answer_options[] = {"greedy", "max-tokens=64", NULL};
  rocmforge_model* model = NULL;
  rocmforge_model_properties properties;
  properties.struct_bytes = sizeof properties;
  if (rocmforge_model_load(argc > 1 ? argv[1] : NULL, load_options, &model) != ROCMFORGE_OK) {
    return fail("load");
  }
  if (rocmforge_model_get_properties(model, &properties) != ROCMFORGE_OK) {
    return fail("properties");
  }
  printf("%s on %s\n", properties.architecture, properties.device);
  if (rocmforge_generate(model, "What is 127 + 458?", answer_options, show, NULL, NULL) != ROCMFORGE_OK) {
    return fail("generate");
  }
  printf("\n");
  const int failed = continue_text(model, "The", 3);
  rocmforge_model_free(model);
  return failed;
}
