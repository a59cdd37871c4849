// `rocmforge serve` as a process: how it starts and how it ends.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "apps/fake_card.h"
#include "apps/program.h"
#include "paths.h"
#include "server/access.h"
#include "server/client.h"

namespace rocmforge {
namespace {

/// A running `rocmforge serve` at a free port, on the CPU unless it is told another device. `environment`: NAME=VALUE lines.
class ServeProcess {
 public:
  explicit ServeProcess(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
    std::array<int, 2> pipe_ends = {};
    if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
      throw std::runtime_error("no pipe");
    }
    arguments.insert(arguments.begin(), {"rocmforge", "serve", "--port", "0", "--threads", "2"});
    environment.insert(environment.begin(), "ROCMFORGE_DEVICE=cpu");
    process_ = fork();
    if (process_ == 0) {
      dup2(pipe_ends[1], STDOUT_FILENO);
      dup2(pipe_ends[1], STDERR_FILENO);
      std::vector<char*> pointers;
      for (std::string& argument : arguments) {
        pointers.push_back(argument.data());
      }
      pointers.push_back(nullptr);
      for (std::string& line : environment) {
        putenv(line.data());
      }
      execv(test::program_path().c_str(), pointers.data());
      _exit(127);
    }
    ::close(pipe_ends[1]);
    reader_ = std::thread([this, file = pipe_ends[0]] {
      std::array<char, 4096> buffer;
      for (ssize_t count = 0; (count = read(file, buffer.data(), buffer.size())) > 0;) {
        const std::lock_guard lock(mutex_);
        output_.append(buffer.data(), static_cast<std::size_t>(count));
      }
      ::close(file);
    });
  }
  ~ServeProcess() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    if (reader_.joinable()) {
      reader_.join();
    }
  }
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  [[nodiscard]] std::string output() {
    const std::lock_guard lock(mutex_);
    return output_;
  }
  bool waits_for(const std::string& text) {
    for (int i = 0; i < 3000; ++i) {
      if (output().find(text) != std::string::npos) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  /// Once the model is loaded.
  std::uint16_t port() {
    if (!waits_for("info serving")) {
      throw std::runtime_error("the server does not start: " + output());
    }
    const std::string text = output();
    const std::size_t address = text.find("http://") + 7;
    return static_cast<std::uint16_t>(std::stoi(text.substr(text.find(':', address) + 1)));
  }
  void signal(int number) const { kill(process_, number); }
  /// The exit code, with all output there; -1 when the end does not come.
  int wait() {
    for (int i = 0; i < 3000; ++i) {
      int status = 0;
      if (waitpid(process_, &status, WNOHANG) == process_) {
        process_ = -1;
        reader_.join();
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return -1;
  }

 private:
  pid_t process_ = -1;
  std::mutex mutex_;
  std::string output_;
  std::thread reader_;
};

const Json long_story = {{"prompt", "Once upon a time"}, {"max_tokens", 1500}, {"stream", true}, {"ignore_eos", true}};

/// Goes on for long, however fast the machine is.
const Json long_stories = {
    {"prompt", "Once upon a time"}, {"max_tokens", 1500}, {"stream", true}, {"ignore_eos", true}, {"n", 32}};

class ProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_demo_model()) {
      GTEST_SKIP() << "models/forge-demo.gguf is missing";
    }
  }
};

TEST_F(ProcessTest, EndsWithZeroOnSigtermAndSigint) {
  for (const int number : {SIGTERM, SIGINT}) {
    ServeProcess server({demo_model().string()});
    EXPECT_EQ(get(server.port(), "/health").status, 200);
    server.signal(number);
    EXPECT_EQ(server.wait(), 0);
    EXPECT_TRUE(server.waits_for("all requests have ended"));
  }
}

TEST_F(ProcessTest, AStepThatDoesNotEndInItsTimeEndsTheProgramWithACodeOfItsOwn) {
  ServeProcess server({demo_model().string(), "--step-timeout", "0.0001"});
  const HttpAnswer answer = post(server.port(), "/v1/completions", {{"prompt", "Once upon a time"}, {"max_tokens", 100}});
  EXPECT_GE(answer.status, 500) << answer.body;
  EXPECT_EQ(server.wait(), 3);
  EXPECT_NE(server.output().find("a step has not ended in 0.0 s; launched last: "), std::string::npos) << server.output();
}

TEST_F(ProcessTest, SamplingIsTheFilesThenTheFlagsThenTheRequests) {
  const TemporaryFolder folder;
  const std::string model = copy_of_demo_model(
      folder, {{"general.sampling.temp", 0.0f}, {"general.sampling.top_k", 7.0f}, {"general.sampling.min_p", 0.125f}});
  ServeProcess server({"-m", model, "--top-k", "5", "--repeat-penalty", "1.5", "--repeat-penalty", "1.25"});
  const std::uint16_t port = server.port();
  const Json params = get(port, "/props").json()["default_generation_settings"]["params"];
  EXPECT_EQ(params["temperature"], 0.0);
  EXPECT_EQ(params["top_k"], 5);
  EXPECT_EQ(params["min_p"], 0.125);
  EXPECT_EQ(params["top_p"], 0.95);
  EXPECT_EQ(params["repeat_penalty"], 1.25);
  const Json answer = post(port, "/generate", {{"prompt", "Hi"}, {"n_predict", 1}, {"top_p", 0.5}, {"top_k", 3}}).json();
  EXPECT_EQ(answer["generation_settings"]["temperature"], 0.0);
  EXPECT_EQ(answer["generation_settings"]["top_k"], 3);
  EXPECT_EQ(answer["generation_settings"]["top_p"], 0.5);
  const Json question = {{"messages", {{{"role", "user"}, {"content", "Tell me a short story."}}}}, {"max_tokens", 24}};
  Json greedy = question;
  greedy["temperature"] = 0;
  const auto text = [&](const Json& request) {
    return post(port, "/v1/chat/completions", request).json()["choices"][0]["message"]["content"];
  };
  EXPECT_EQ(text(question), text(greedy));
}

/// A server that keeps prompts of two keys in files; its keys and salts find their own after a restart.
class Restarts : public ProcessTest {
 protected:
  /// Tokens of the prompt that were known to a server with these keys, which ends then: of the first request, and of the
  /// second, which has a salt.
  [[nodiscard]] std::vector<int> known(const std::string& keys, const std::string& key, const std::string& folder) const {
    const std::string file = files_.write("keys", keys);
    std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    ServeProcess server({demo_model().string(), "--api-key-file", file, "--isolate-keys", "--cache-disk",
                         (files_.path() / folder).string(), "--kv-type", "f32", "-c", "1024"});
    std::vector<int> found;
    for (const std::string salt : {"", "a user"}) {
      Json request = {{"prompt", prompt_}, {"max_tokens", 1}};
      if (!salt.empty()) {
        request["cache_salt"] = salt;
      }
      const HttpAnswer answer = post(server.port(), "/v1/completions", request, {"X-Api-Key: " + key});
      EXPECT_EQ(answer.status, 200) << answer.body;
      found.push_back(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>());
    }
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait(), 0);
    return found;
  }

  TemporaryFolder files_;
  std::string prompt_ = [] {
    std::string text;
    for (int i = 0; i < 100; ++i) {
      text += std::to_string(i * i) + " ";
    }
    return text;
  }();
};

TEST_F(Restarts, FindThePromptsOfAKeyAndASaltInFiles) {
  EXPECT_EQ(known("one\ntwo\n", "one", "a"), (std::vector{0, 0}));
  EXPECT_THAT(known("two\none\n", "one", "a"), testing::Each(testing::Gt(150))) << "whatever its place";
  EXPECT_EQ(known("two\none\n", "two", "a"), (std::vector{0, 0})) << "another key in the first one's place";
  EXPECT_EQ(known("one\n", "one", "b"), (std::vector{0, 0})) << "another folder";
  for (const auto& entry : std::filesystem::directory_iterator(files_.path() / "a")) {
    if (entry.path().extension() == ".prompt") {
      std::filesystem::copy_file(entry.path(), files_.path() / "b" / entry.path().filename(),
                                 std::filesystem::copy_options::skip_existing);
    }
  }
  EXPECT_EQ(known("one\ntwo\n", "two", "b"), (std::vector{0, 0})) << "files of a folder with another secret";
}

TEST_F(ProcessTest, AnOpenAddressWithoutAKeyIsWarnedOf) {
  const std::string warning = "anybody who reaches 0.0.0.0 may use this server; --api-key-file asks for a key";
  ServeProcess open({demo_model().string(), "--host", "0.0.0.0"});
  EXPECT_TRUE(open.waits_for("info serving"));
  EXPECT_NE(open.output().find(warning), std::string::npos) << open.output();
  ServeProcess with_keys({demo_model().string(), "--host", "0.0.0.0", "--api-key", "k,l", "--api-key", "m"});
  EXPECT_TRUE(with_keys.waits_for("info serving"));
  const std::string output = with_keys.output();
  EXPECT_EQ(output.find(warning), std::string::npos);
  const std::string mark = "http://0.0.0.0:";
  const auto port = static_cast<std::uint16_t>(std::stoi(output.substr(output.find(mark) + mark.size())));
  for (const auto& [key, status] : {std::pair("k", 200), {"l", 200}, {"m", 200}, {"k,l", 401}, {"", 401}}) {
    EXPECT_EQ(get(port, "/props", {std::string("X-Api-Key: ") + key}).status, status) << key;
  }
}

TEST_F(ProcessTest, ALogFileThatCannotBeWrittenIsAnErrorAtStart) {
  for (const std::string file : {"/dev/full", "/proc/nothing/log", "/"}) {
    ServeProcess server({demo_model().string(), "--log-file", file});
    EXPECT_EQ(server.wait(), 1) << file;
    EXPECT_NE(server.output().find("rocmforge: the log file can't be "), std::string::npos) << server.output();
  }
}

TEST_F(ProcessTest, CancelsWhatOutlastsTheDrain) {
  ServeProcess server({demo_model().string(), "--drain-seconds", "0.2"});
  Connection connection(server.port());
  connection.send(request_text("POST", "/v1/completions", long_story.dump()));
  ASSERT_TRUE(connection.read_until("\"text\""));
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
  EXPECT_TRUE(server.waits_for("requests were cancelled"));
  EXPECT_TRUE(connection.read_answer().complete);
}

TEST_F(ProcessTest, ASecondSignalEndsTheDrain) {
  ServeProcess server({demo_model().string(), "--drain-seconds", "1000"});
  Connection connection(server.port());
  connection.send(request_text("POST", "/v1/completions", long_stories.dump()));
  ASSERT_TRUE(connection.read_until("\"text\""));
  server.signal(SIGINT);
  ASSERT_TRUE(server.waits_for("shutting down: running requests have 1000 s to end"));
  server.signal(SIGINT);
  EXPECT_EQ(server.wait(), 0);
  EXPECT_TRUE(server.waits_for("requests were cancelled"));
}

TEST_F(ProcessTest, AClientThatIsKilledLeavesALineAndItsRoom) {
  ServeProcess server({demo_model().string()});
  const std::uint16_t port = server.port();
  const pid_t client = fork();
  if (client == 0) {
    Connection connection(port);
    connection.send(request_text("POST", "/v1/completions", long_stories.dump()));
    connection.read_until("never", std::chrono::hours(1));
    _exit(0);
  }
  for (int i = 0; i < 1000 && get(port, "/slots").body.find("\"decode\"") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(client, SIGKILL);
  waitpid(client, nullptr, 0);
  EXPECT_TRUE(server.waits_for("client_left=true"));
  EXPECT_NE(server.output().find("finish=cancelled"), std::string::npos) << server.output();
  EXPECT_EQ(post(port, "/v1/completions", {{"prompt", "a"}, {"max_tokens", 2}}).status, 200);
}

TEST_F(ProcessTest, SaysWhenTheModelsFileWasCutShort) {
  const TemporaryFolder folder;
  const std::filesystem::path copy = folder.path() / "copy.gguf";
  std::filesystem::copy_file(demo_model(), copy);
  ServeProcess server({copy.string()});
  const std::uint16_t port = server.port();
  std::filesystem::resize_file(copy, 4096);
  post(port, "/v1/completions", {{"prompt", "Once upon a time"}});
  EXPECT_EQ(server.wait(), 1);
  EXPECT_TRUE(server.waits_for("rocmforge: a model's file was cut short or can't be read any more while it was in use\n"));
}

TEST_F(ProcessTest, GoesOnWhenTheModelsFileIsRemoved) {
  const TemporaryFolder folder;
  const std::filesystem::path copy = folder.path() / "copy.gguf";
  std::filesystem::copy_file(demo_model(), copy);
  ServeProcess server({copy.string(), "--alias", "copy"});
  const std::uint16_t port = server.port();
  std::filesystem::remove(copy);
  const Json answer = post(port, "/v1/chat/completions",
                           {{"messages", {{{"role", "user"}, {"content", "What is 127 + 458?"}}}}, {"temperature", 0}})
                          .json();
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "585");
}

// A log that could be written at the start: a pipe whose reader leaves.
TEST_F(ProcessTest, SurvivesALogThatFailsLater) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "log").string();
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ServeProcess server({demo_model().string(), "--log-file", path});
  const bool started = server.waits_for("http://");
  ::close(reader);
  ASSERT_TRUE(started) << server.output();
  const std::string text = server.output();
  const auto port = static_cast<std::uint16_t>(std::stoi(text.substr(text.find("127.0.0.1:") + 10)));
  for (int i = 0; i < 500 && get(port, "/ready").status != 200; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(post(port, "/v1/completions", {{"prompt", "a"}}).status, 200);
  EXPECT_TRUE(server.waits_for("the log can't be written, lines are lost")) << server.output();
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
}

TEST_F(ProcessTest, SaysInALineWhyItCannotStart) {
  ServeProcess first({demo_model().string()});
  const std::string port = std::to_string(first.port());
  const auto line = [](const std::vector<std::string>& arguments) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return std::pair(result.exit_code, result.err);
  };
  const std::string model = demo_model().string();
  EXPECT_EQ(line({"serve", model, "--port", port}),
            std::pair(1, "rocmforge: cannot listen at 127.0.0.1:" + port + ": Address already in use\n"));
  EXPECT_EQ(line({"serve", "/no/such.gguf", "--port", "0"}).first, 2);
  EXPECT_EQ(line({"serve", model, "--port", "0", "--log-file", "/dev/null/log"}).first, 1);
  EXPECT_EQ(line({"serve", model, "--port", "0", "--api-key-file", "/no/such/keys"}).first, 1);
  EXPECT_EQ(line({"serve", model, "--port", "0", "--parallel", "0"}).first, 2);
  const ProgramResult empty = run_program({"serve", model, "--port", "0"}, "", {"ROCMFORGE_API_KEY="});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_EQ(empty.err, "rocmforge: ROCMFORGE_API_KEY is empty: unset it to serve without a key\n");
}

TEST_F(ProcessTest, AServerWithoutAKeyAnswersToItsNamesAlone) {
  ServeProcess server({demo_model().string(), "--host", "0.0.0.0", "--allowed-hosts", "forge.example"});
  const auto status_for = [&](const std::string& host) {
    Connection connection(server.port());
    connection.send("GET /version HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    return connection.read_answer().status;
  };
  const std::string name = machine_name();
  const std::string first = name.substr(0, name.find('.'));
  for (const std::string& host : {name, first, first + ".local", std::string("localhost"), std::string("127.0.0.1:1"),
                                  std::string("192.168.7.7"), std::string("forge.example:80")}) {
    EXPECT_EQ(status_for(host), 200) << host;
  }
  EXPECT_EQ(status_for("evil.example"), 403);
}

/// What a memory fault leaves on standard error.
const std::string fault_line =
    "rocmforge: the GPU faulted at address 0x7f3a10c00000 (page not present, write to a read-only page); launched last: ";

TEST_F(ProcessTest, AMemoryFaultOfTheGpuEndsRunWithOneLineAndACodeOfItsOwn) {
  const FakeCard card("faulting");
  const ProgramResult result =
      run_program(card.with_kernels({"run", demo_model().string(), "-p", "Hello"}), "", card.environment());
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_TRUE(result.err.starts_with(fault_line)) << result.err;
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
}

TEST_F(ProcessTest, AMemoryFaultOfTheGpuEndsTheServerAlthoughARequestWaits) {
  const FakeCard card("faulting");
  ServeProcess server(card.with_kernels({demo_model().string()}), card.environment());
  const std::uint16_t port = server.port();
  std::thread client([port] {
    try {
      static_cast<void>(post(port, "/v1/completions", {{"prompt", "Once upon a time"}, {"max_tokens", 100}}));
    } catch (const std::exception&) {  // the connection ends without an answer
    }
  });
  EXPECT_EQ(server.wait(), 4) << server.output();
  client.join();
  EXPECT_NE(server.output().find(fault_line), std::string::npos) << server.output();
}

/// Exit codes 3 and 4 are failures to systemd, which starts the service again.
TEST(ServiceUnit, StartsAgainAfterEveryFailure) {
  std::ifstream unit(test::source_path("packaging/rocmforge.service.in"));
  std::vector<std::string> restarts;
  for (std::string line; std::getline(unit, line);) {
    EXPECT_FALSE(line.starts_with("SuccessExitStatus") || line.starts_with("RestartPreventExitStatus")) << line;
    if (line.starts_with("Restart=")) {
      restarts.push_back(line);
    }
  }
  EXPECT_EQ(restarts, std::vector<std::string>{"Restart=on-failure"});
}

}  // namespace
}  // namespace rocmforge
