#include "models/parts/token_draw.h"

#include <cstddef>
#include <string>

namespace rocmforge {

TokenDraw::TokenDraw(Planner& planner, std::int32_t vocab) : sample_(planner.resolve<SampleTokens>({vocab})) {
  BufferPlan& buffers = planner.buffers();
  const auto rows = static_cast<std::size_t>(buffers.logit_rows());
  buffers.need_bytes(BufferName::scratch, rows * sample_workspace_bytes(vocab));
  buffers.need_bytes(BufferName::sampled, rows * sizeof(std::int32_t));
  operations_.push_back({std::string(SampleTokens::name), [this](const Step& step) {
                           const StepArrays& arrays = *step.arrays;
                           sample_.run({.logits = step.buffers.logits,
                                        .num_rows = step.tokens,
                                        .rows = arrays.sample_rows,
                                        .adjustments = arrays.adjustments,
                                        .masks = arrays.masks,
                                        .all_greedy = arrays.draw == Draw::greedy,
                                        .out = step.buffers.sampled,
                                        .workspace = step.buffers.scratch},
                                       step);
                         }});
}

}  // namespace rocmforge
