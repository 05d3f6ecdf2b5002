// Runs an executable that lies beside this one.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

struct Outcome {
  int status;  // the exit status, or 128 + the signal
  std::string text;
};

inline std::string own_folder() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  const std::string self(path, n > 0 ? size_t(n) : 0);
  return self.substr(0, self.rfind('/'));
}

/// `variables` are set before it, as in A=1 B=2.
inline Outcome run_beside(const std::string& executable, const std::string& arguments, const std::string& variables) {
  const std::string path = "'" + own_folder() + "/" + executable + "'";
  FILE* pipe = popen((variables + " exec " + path + " " + arguments + " 2>&1").c_str(), "r");
  Outcome out{-1, ""};
  if (pipe == nullptr) return out;
  char line[1024];
  while (fgets(line, sizeof line, pipe) != nullptr) out.text += line;
  const int status = pclose(pipe);
  out.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return out;
}
