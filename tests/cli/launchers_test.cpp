// Compilers behind distcc, where it is installed: units are compiled by a server.
#include <fcntl.h>

#include "cache/remote/remote_for_test.h"
#include "cli_for_test.h"

namespace toroid {
namespace {

// A distcc server of its own on this machine, ended with the object.
class DistccServer {
 public:
  static bool is_installed() { return find_program("distcc").has_value() && find_program("distccd").has_value(); }
  DistccServer() {
    const std::string port = std::to_string(port_);
    // Of all on this machine alone. Without the last it would run only compilers that an administrator has listed.
    std::vector<std::string> words = {find_program("distccd")->string(),
                                      "--no-detach",
                                      "--daemon",
                                      "--allow",
                                      "127.0.0.1",
                                      "--listen",
                                      "127.0.0.1",
                                      "--port",
                                      port,
                                      "--log-stderr",
                                      "--log-level",
                                      "info",
                                      "--enable-tcp-insecure"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const Fd log(::open(log_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      ::dup2(log.get(), 2);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    for (int i = 0; i < 500 && !connected_socket(port_); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  DistccServer(const DistccServer&) = delete;
  ~DistccServer() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  size_t units_compiled() const { return matches_in(read_file(log_), "COMPILE_OK").size(); }

 private:
  TempFolder folder_;
  const fs::path log_ = folder_.path() / "log";
  const uint16_t port_ = free_port();
  pid_t pid_ = -1;
};

TEST_F(CliCache, UnitsAreCompiledByDistccsServersToTheSameBytes) {
  if (!DistccServer::is_installed()) GTEST_SKIP() << "distcc is not installed (apt-get install distcc): nothing of this was tested";
  const DistccServer server;
  fs::create_directory(path("distcc"));
  const std::vector<std::string> compile = {"compile", (kDigits / "digits.pt2").string(), "--no-cache", "--threads", "3", "--cxxflag=-O1",
                                            "-o"};
  const auto to = [&](const char* file) {
    std::vector<std::string> arguments = compile;
    arguments.emplace_back(file);
    return arguments;
  };
  const Outcome far = toroid(
      to("far.so"),
      {{"TOROID_CXX", "distcc g++"}, {"DISTCC_HOSTS", server.host()}, {"DISTCC_FALLBACK", "0"}, {"DISTCC_DIR", path("distcc").string()}});
  ASSERT_EQ(far.exit_code, 0) << far.errors;
  EXPECT_GE(server.units_compiled(), 1u);
  ASSERT_EQ(toroid(to("near.so"), {{"TOROID_CXX", "g++"}}).exit_code, 0);
  EXPECT_TRUE(read_file(path("far.so")) == read_file(path("near.so")));

  // A server that is not there, before the one that is: what it would compile is compiled elsewhere.
  const std::string hosts = "127.0.0.1:" + std::to_string(free_port()) + " " + server.host();
  const Outcome without =
      toroid(to("without.so"), {{"TOROID_CXX", "distcc g++"}, {"DISTCC_HOSTS", hosts}, {"DISTCC_DIR", path("distcc").string()}});
  ASSERT_EQ(without.exit_code, 0) << without.errors;
  EXPECT_TRUE(read_file(path("without.so")) == read_file(path("near.so")));

  const Outcome doctor = toroid({"doctor"}, {{"TOROID_CXX", "distcc g++"}, {"DISTCC_HOSTS", server.host()}});
  EXPECT_TRUE(has_match(doctor.output, "ok +launcher +/[^ ]*distcc, from TOROID_CXX\n")) << doctor.output;
}

}  // namespace
}  // namespace toroid
