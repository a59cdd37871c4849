#include "conformance/attention_cases.h"

namespace rocmforge::test {
namespace {

constexpr AttentionCall in_blocks_of(std::int32_t tokens) { return {.block_tokens = tokens}; }
constexpr AttentionCall as_dense(bool heads_first = false) { return {.dense = true, .heads_first = heads_first}; }
constexpr AttentionCall with_padding(std::int32_t sequences) { return {.padding = sequences}; }

constexpr DType f32 = DType::f32;
constexpr DType f16 = DType::f16;
constexpr DType bf16 = DType::bf16;
constexpr DType q8_0 = DType::q8_0;

}  // namespace

std::vector<AttentionCase> tiny_attention_cases() {
  return {
      {"one_token", heads(2, 1, 64), {{1, 1}}},
      {"lengths_16_and_17", heads(2, 2, 64), {{16, 16}, {17, 17}}},
      {"gqa_8_2", heads(8, 2, 64), {{33, 5}}},
      {"mqa_32_1", heads(32, 1, 128), {{18, 2}}},
      {"mha_head_dim_128", heads(2, 2, 128), {{20, 20}}},
      {"prefill_and_decode_mixed", heads(4, 2, 64), {{40, 1}, {19, 19}, {33, 1}, {37, 4}}},
      {"head_dim_16_two_heads", heads(2, 2, 16, f32), {{12, 12}}, in_blocks_of(16)},
      {"head_dim_32_four_heads", heads(4, 4, 32, f32), {{8, 8}}},
      {"head_dim_16_gqa_8_2", heads(8, 2, 16), {{8, 8}}},
      {"exactly_two_blocks", heads(2, 1, 64), {{32, 32}}, in_blocks_of(16)},
      {"head_dim_40", heads(2, 1, 40), {{19, 3}}},
      {"head_dim_72", heads(2, 1, 72), {{18, 18}}},
      {"head_dim_80", heads(2, 1, 80), {{19, 19}}},
      {"head_dim_96", heads(2, 1, 96), {{19, 19}}},
      {"head_dim_256", heads(2, 1, 256), {{18, 3}}},
      {"blocks_of_16", heads(2, 1, 64), {{35, 20}}, in_blocks_of(16)},
      {"blocks_of_64", heads(2, 1, 64), {{67, 4}}, in_blocks_of(64)},
      {"f32_cache", heads(2, 1, 64, f32), {{21, 21}}},
      {"bf16_cache", heads(2, 1, 64, bf16), {{21, 21}}},
      {"q8_0_cache", heads(2, 1, 64, q8_0), {{21, 21}, {18, 1}}},
      {"q8_0_decode", decode(heads(4, 2, 96, q8_0)), {{33, 1}, {1, 1}, {70, 1}}, in_blocks_of(16)},
      {"window", options(heads(2, 1, 64), 7, 0.0f, false), {{30, 30}}},
      {"soft_cap", options(heads(2, 1, 64), 0, 5.0f, false), {{20, 20}}},
      {"sinks", options(heads(2, 1, 64), 0, 0.0f, true), {{20, 20}, {18, 1}}},
      {"everything", options(heads(4, 2, 64, bf16), 9, 20.0f, true, 0.2f), {{24, 24}, {33, 1}}},
      {"full", full(heads(2, 1, 64)), {{20, 20}, {33, 4}}},
      {"mask", masked(heads(2, 1, 64)), {{20, 20}, {18, 2}}},
      {"full_mask", masked(full(heads(2, 1, 64))), {{20, 20}}},
      {"f16_in_and_out", in_and_out(heads(2, 1, 64), f16), {{20, 20}}},
      {"bf16_in_and_out", in_and_out(heads(2, 1, 64, bf16), bf16), {{20, 20}}},
      {"decode", decode(heads(4, 2, 64)), {{33, 1}, {1, 1}, {16, 1}}},
      {"decode_over_several_parts", decode(heads(2, 1, 64)), {{300, 1}}},
      {"decode_head_dim_128", decode(heads(4, 1, 128)), {{70, 1}}},
      {"decode_padding", decode(heads(4, 2, 64)), {{33, 1}}, with_padding(3)},
      {"decode_bf16_in_and_out", in_and_out(decode(heads(4, 2, 80, bf16)), bf16), {{33, 1}, {1, 1}, {70, 1}}},
      {"decode_group_of_16", decode(heads(16, 1, 64)), {{70, 1}}},
      {"decode_head_dim_256", decode(heads(4, 2, 256)), {{70, 1}, {3, 1}}},
      {"decode_dense", decode(heads(4, 2, 64)), {{33, 1}, {70, 1}}, as_dense()},
      {"decode_dense_heads_first", decode(heads(4, 2, 64)), {{33, 1}, {70, 1}}, as_dense(true)},
      {"decode_options", decode(options(heads(4, 2, 64), 40, 20.0f, true)), {{60, 1}, {20, 1}}},
      {"padding", heads(2, 1, 64), {{20, 5}}, with_padding(2)},
      {"dense", heads(4, 2, 64), {{20, 20}, {33, 20}}, as_dense()},
      {"dense_heads_first", full(heads(4, 2, 64)), {{20, 20}, {33, 20}}, as_dense(true)},
      {"dense_more_queries_than_keys", heads(2, 1, 64), {{5, 9}}, as_dense()},
  };
}

std::vector<AttentionCase> attention_cases() {
  return {
      {"mha_32", heads(32, 32, 128), {{17, 17}, {129, 1}}},
      {"mha_40", heads(40, 40, 128), {{129, 16}}},
      {"gqa_32_8", heads(32, 8, 128), {{1, 1}, {16, 16}, {17, 17}, {129, 129}}},
      {"gqa_8_2", heads(8, 2, 64), {{257, 257}, {33, 7}}},
      {"mqa_32_1", heads(32, 1, 128), {{129, 129}}},
      {"mqa_71_1_wider_than_a_tile", heads(71, 1, 64), {{40, 3}, {130, 1}}},
      {"gqa_14_2_odd_group", heads(14, 2, 64), {{300, 1}, {65, 65}}},
      {"batch_of_4_decodes", heads(8, 2, 64), {{1, 1}, {64, 1}, {257, 1}, {500, 1}}},
      {"batch_of_4_prompts", heads(8, 2, 64), {{1, 1}, {16, 16}, {17, 17}, {129, 129}}},
      {"prefill_and_decode_mixed", heads(8, 4, 96), {{200, 1}, {70, 70}, {128, 1}, {256, 129}}},
      {"long_decode", heads(32, 4, 64), {{2048, 1}}},
      {"long_chunk", heads(8, 8, 64), {{2048, 16}}},
      {"odd_length_decode", heads(4, 4, 64), {{1, 1}, {2, 1}, {127, 1}, {128, 1}, {129, 1}, {255, 1}}},
      {"f32_cache", heads(8, 2, 80, f32), {{150, 150}, {33, 1}}},
      {"bf16_cache", heads(8, 2, 128, bf16), {{150, 150}, {33, 1}}},
      {"q8_0_cache", heads(8, 2, 128, q8_0), {{150, 150}, {33, 1}}},
      {"q8_0_head_dim_96", heads(6, 2, 96, q8_0), {{150, 20}, {33, 1}}, in_blocks_of(16)},
      {"q8_0_options", options(heads(8, 2, 64, q8_0), 50, 20.0f, true), {{300, 300}, {400, 1}}},
      {"q8_0_decode", decode(heads(32, 8, 128, q8_0)), {{2048, 1}, {129, 1}, {17, 1}, {1, 1}}},
      {"q8_0_decode_mqa", decode(heads(16, 1, 64, q8_0)), {{700, 1}, {40, 1}}},
      {"q8_0_decode_head_dim_256", decode(heads(8, 1, 256, q8_0)), {{600, 1}}, in_blocks_of(32)},
      {"head_dim_72", heads(6, 2, 72), {{150, 20}, {33, 1}}},
      {"head_dim_80", heads(8, 2, 80), {{150, 150}, {33, 1}}},
      {"head_dim_8", heads(2, 1, 8, f32), {{150, 150}}},
      {"head_dim_256", heads(4, 1, 256), {{140, 140}, {300, 1}}},
      {"blocks_of_16", heads(8, 2, 64), {{150, 150}, {33, 1}}, in_blocks_of(16)},
      {"blocks_of_64", heads(8, 2, 64), {{150, 150}, {65, 1}}, in_blocks_of(64)},
      {"blocks_of_512", heads(8, 2, 64), {{600, 10}, {65, 1}}, in_blocks_of(512)},
      {"window", options(heads(8, 2, 64), 50, 0.0f, false), {{300, 300}, {400, 1}}},
      {"window_of_1", options(heads(4, 2, 64), 1, 0.0f, false), {{140, 140}}},
      {"window_of_chunk_size", options(heads(4, 2, 64), 128, 0.0f, false), {{400, 300}}},
      {"soft_cap", options(heads(8, 2, 64), 0, 5.0f, false), {{300, 300}, {40, 1}}},
      {"sinks", options(heads(8, 2, 64), 0, 0.0f, true), {{300, 300}, {40, 1}}},
      {"everything", options(heads(16, 4, 128, bf16), 100, 20.0f, true, 0.2f), {{300, 300}, {40, 1}, {290, 3}}},
      {"decode_long", decode(heads(32, 8, 128)), {{2048, 1}, {129, 1}, {17, 1}, {1, 1}}},
      {"decode_mqa", decode(heads(32, 1, 128)), {{1500, 1}}},
      {"decode_mha_bf16", decode(heads(8, 8, 128, bf16)), {{700, 1}, {40, 1}}},
      {"decode_f32", decode(heads(8, 2, 64, f32)), {{700, 1}, {40, 1}}},
      {"decode_window", decode(options(heads(8, 2, 64), 100, 0.0f, false)), {{1000, 1}, {40, 1}}},
      {"decode_sinks_soft_cap", decode(options(heads(8, 2, 128), 0, 20.0f, true)), {{1000, 1}, {40, 1}}},
      {"decode_blocks_of_16", decode(heads(8, 2, 128)), {{1000, 1}, {40, 1}}, in_blocks_of(16)},
      {"decode_head_dim_256", decode(heads(8, 1, 256)), {{600, 1}}},
      {"decode_head_dim_256_group_of_12", decode(heads(24, 2, 256, bf16)), {{600, 1}, {40, 1}}},
      {"decode_head_dim_72", decode(heads(6, 2, 72)), {{700, 1}, {40, 1}}},
      {"decode_head_dim_96", decode(heads(8, 2, 96, bf16)), {{700, 1}, {40, 1}}},
      {"decode_group_of_20", decode(heads(40, 2, 128)), {{700, 1}, {1025, 1}}},
      {"decode_group_of_71", decode(heads(71, 1, 64)), {{700, 1}, {40, 1}}},
      {"decode_window_between_blocks", decode(options(heads(8, 2, 128, bf16), 700, 0.0f, false)), {{2001, 1}, {40, 1}}},
      {"decode_dense", decode(heads(8, 2, 128)), {{700, 1}, {701, 1}}, as_dense()},
      {"decode_blocks_of_32", decode(heads(8, 2, 64)), {{1000, 1}, {40, 1}}, in_blocks_of(32)},
      {"decode_blocks_of_256", decode(heads(8, 2, 64, bf16)), {{1000, 1}, {40, 1}}, in_blocks_of(256)},
      {"decode_ragged_batch",
       decode(heads(8, 2, 128, bf16)),
       {{1500, 1}, {1, 1}, {64, 1}, {65, 1}, {800, 1}, {256, 1}, {257, 1}, {3, 1}, {640, 1}, {511, 1}}},
      {"decode_padding", decode(heads(8, 2, 128)), {{600, 1}, {40, 1}}, with_padding(6)},
      {"padding", heads(8, 2, 64), {{150, 70}, {40, 1}}, with_padding(3)},
  };
}

std::vector<AttentionCase> huge_attention_cases() {
  return {
      {"mha_32_prompt_of_2048", heads(32, 32, 128), {{2048, 2048}}},
      {"mha_40_prompt_of_2048", heads(40, 40, 128), {{2048, 2048}}},
      {"gqa_32_8_batch_4", heads(32, 8, 128), {{2048, 2048}, {129, 129}, {2048, 2048}, {1000, 1000}}},
      {"gqa_8_2_prompt_of_2048", heads(8, 2, 128, bf16), {{2048, 2048}}},
      {"mqa_32_1_prompt_of_2048", heads(32, 1, 128), {{2048, 2048}}},
      {"gqa_32_8_prompt_of_16384", heads(32, 8, 128), {{16384, 16384}}},
      {"gqa_32_8_chunk_at_16384", heads(32, 8, 128), {{16384, 512}}},
      {"gqa_8_2_head_dim_256_at_16384", heads(8, 2, 256), {{16384, 300}}},
      {"window_at_16384", options(heads(8, 2, 128), 4096, 0.0f, false), {{16384, 700}}},
      {"dense_batch_4", full(heads(32, 8, 128)), {{1000, 400}, {2048, 400}, {129, 400}, {17, 400}}, as_dense()},
      {"decode_at_16384", decode(heads(32, 8, 128)), {{16384, 1}, {16383, 1}, {129, 1}, {2048, 1}}},
      {"decode_mqa_at_16384", decode(heads(32, 1, 128)), {{16384, 1}}},
      {"decode_mha_40_at_16384", decode(heads(40, 40, 128)), {{16384, 1}}},
      {"decode_batch_of_64", decode(heads(32, 8, 128)), std::vector<SequenceShape>(64, {300, 1})},
  };
}

}  // namespace rocmforge::test
