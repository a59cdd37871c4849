#include "models/parts/token_draw.h"

#include <cstddef>
#include <string>

#include "models/step/communicator.h"

namespace rocmforge {

TokenDraw::TokenDraw(Planner& planner, std::int32_t vocab, const Communicator* communicator) {
  BufferPlan& buffers = planner.buffers();
  const auto rows = static_cast<std::size_t>(buffers.logit_rows());
  buffers.need_bytes(BufferName::sampled, rows * sizeof(std::int32_t));
  if (is_first_rank(communicator)) {
    sample_ = planner.resolve<SampleTokens>({vocab});
    buffers.need_bytes(BufferName::scratch, rows * sample_workspace_bytes(vocab));
    buffers.need_bytes(BufferName::probabilities, rows * sizeof(float));
    add_draw();
  }
  if (communicator != nullptr) {
    operations_.push_back({"broadcast", [](const Step& step) {
                             step.communicator->broadcast(step.buffers.sampled,
                                                          static_cast<std::size_t>(step.tokens) * sizeof(std::int32_t));
                           }});
  }
}

void TokenDraw::add_draw() {
  operations_.push_back({std::string(SampleTokens::name), [this](const Step& step) {
                           const StepArrays& arrays = *step.arrays;
                           sample_.run({.logits = step.buffers.logits,
                                        .num_rows = step.tokens,
                                        .rows = arrays.sample_rows,
                                        .adjustments = arrays.adjustments,
                                        .masks = arrays.masks,
                                        .all_greedy = arrays.draw == Draw::greedy,
                                        .out = step.buffers.sampled,
                                        .probabilities = step.buffers.probabilities,
                                        .workspace = step.buffers.scratch},
                                       step);
                         }});
}

}  // namespace rocmforge
