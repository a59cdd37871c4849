#include "service/models.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"
#include "service/service_error.h"
#include "service/service_testing.h"
#include "service/stream.h"

namespace rocmforge {
namespace {

using namespace std::chrono_literals;

/// A script that says "slow" and waits at its first token until it is let go. `life` lives as long as the model.
struct SlowModel {
  std::shared_ptr<std::promise<void>> begun = std::make_shared<std::promise<void>>();
  std::promise<void> go;
  std::shared_ptr<int> life = std::make_shared<int>(0);

  FakeModel::Script script() {
    return [begun = begun, gate = go.get_future().share(), life = life, first = true,
            say = saying("slow")](const FakeModel::Tokens& visible) mutable {
      if (std::exchange(first, false)) {
        begun->set_value();
        gate.wait();
      }
      return say(visible);
    };
  }
  /// Whether the model is destroyed within a minute.
  [[nodiscard]] bool ends() const {
    for (int i = 0; i < 6000 && life.use_count() > 1; ++i) {
      std::this_thread::sleep_for(10ms);
    }
    return life.use_count() == 1;
  }
};

std::string answer_of(ModelInstance& model) { return wait_for_answer(model.loop(), prompt_request()).text; }

TEST(Models, AModelIsLoadedWhenItIsAskedForAndKept) {
  Models models;
  std::atomic<int> loads = 0;
  models.add(
      [&] {
        ++loads;
        return scripted_engine(saying("hello"));
      },
      named("a"));
  EXPECT_EQ(models.first(), nullptr);
  EXPECT_EQ(models.find("b"), nullptr);
  std::vector<std::future<std::shared_ptr<ModelInstance>>> found;
  for (int i = 0; i < 4; ++i) {
    found.push_back(std::async(std::launch::async, [&] { return models.find("a"); }));
  }
  for (auto& one : found) {
    EXPECT_EQ(answer_of(*one.get()), "hello");
  }
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(models.first(), models.find("a"));
}

TEST(Models, LoadingThatFailsIsToldAndTriedAgain) {
  Models models;
  int loads = 0;
  models.add(
      [&]() -> std::unique_ptr<Engine> {
        if (++loads == 1) {
          throw Error("the file is gone");
        }
        return scripted_engine(saying("back"));
      },
      named("a"));
  EXPECT_THROW(models.find("a"), Error);
  EXPECT_EQ(answer_of(*models.find("a")), "back");
}

TEST(Models, AnAnswerKeepsItsModelWhenAnotherReplacesIt) {
  Models models;
  SlowModel slow;
  std::future<std::string> answer;
  {
    const auto old = models.add(scripted_engine(slow.script()), named("a"));
    answer = std::async(std::launch::async, [old] { return answer_of(*old); });
  }
  slow.begun->get_future().wait();
  models.add(scripted_engine(saying("new")), named("a"));
  EXPECT_EQ(answer_of(*models.find("a")), "new");
  EXPECT_GT(slow.life.use_count(), 1);
  slow.go.set_value();
  EXPECT_EQ(answer.get(), "slow");
  answer = {};
  EXPECT_TRUE(slow.ends());
}

/// Holds a model until its answer has ended, as the answers of a server do.
class Holder final : public OutputListener {
 public:
  explicit Holder(std::shared_ptr<ModelInstance> model) : model_(std::move(model)) {}
  void on_output(Delivery) override {}
  void on_failure() noexcept override {}

 private:
  std::shared_ptr<ModelInstance> model_;
};

TEST(Models, TheLastHolderMayBeTheModelsOwnThread) {
  Models models;
  SlowModel slow;
  auto model = models.add(scripted_engine(slow.script()), named("a"));
  std::vector<Request> requests;
  requests.push_back(prompt_request());
  EngineLoop& loop = model->loop();
  ASSERT_NE(loop.submit(std::move(requests), 1, std::make_shared<Holder>(std::move(model))), 0u);
  slow.begun->get_future().wait();
  EXPECT_TRUE(models.unload("a"));
  EXPECT_FALSE(models.unload("a"));
  EXPECT_EQ(models.find("a"), nullptr);  // it came as an engine: nothing can load it again
  slow.go.set_value();
  EXPECT_TRUE(slow.ends());
}

TEST(Models, TheirEndCancelsAnswersThatHoldAModel) {
  auto models = std::make_unique<Models>();
  SlowModel slow;
  const auto model = models->add(scripted_engine(slow.script()), named("a"));
  std::future<AnswerEnd> answer =
      std::async(std::launch::async, [&] { return wait_for_answer(model->loop(), prompt_request()); });
  slow.begun->get_future().wait();
  std::thread end([&] { models.reset(); });
  slow.go.set_value();
  end.join();
  const FinishReason finish = answer.get().last.finish;
  EXPECT_TRUE(finish == FinishReason::cancelled || finish == FinishReason::stop);
  EXPECT_TRUE(slow.ends());
  try {
    wait_for_answer(model->loop(), prompt_request());
    ADD_FAILURE() << "the loop has stopped";
  } catch (const ServiceError& error) {
    EXPECT_EQ(error.kind, ServiceError::Kind::busy);
  }
}

TEST(Models, OnlyIdleModelsThatCanBeLoadedAgainAreUnloaded) {
  Models models;
  int loads = 0;
  models.add(
      [&] {
        ++loads;
        return scripted_engine(saying("x"));
      },
      named("again"));
  models.add(scripted_engine(saying("y")), named("once"));
  auto held = models.find("again");
  EXPECT_EQ(models.unload_idle(0s), 0u);
  held.reset();
  EXPECT_EQ(models.unload_idle(1h), 0u);
  EXPECT_EQ(models.unload_idle(0s), 1u);
  EXPECT_EQ(answer_of(*models.find("once")), "y");
  EXPECT_EQ(answer_of(*models.find("again")), "x");
  EXPECT_EQ(loads, 2);
}

TEST(Models, TheFirstIsTheOneThatWasAddedFirst) {
  Models models;
  models.add(scripted_engine(saying("z")), named("z"));
  models.add(scripted_engine(saying("a")), named("a"));
  EXPECT_EQ(models.first()->facts().id, "z");
  models.add(scripted_engine(saying("new z")), named("z"));
  EXPECT_EQ(answer_of(*models.first()), "new z");
  models.unload("z");
  EXPECT_EQ(models.first()->facts().id, "a");
}

}  // namespace
}  // namespace rocmforge
