// How many files a change touches: the tables of docs/add-a-quant-format.md, add-a-model.md and add-an-operation.md are
// compared with the files of src that name an example, and the toys of this folder are counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "paths.h"

namespace rocmforge::test {
namespace {

namespace fs = std::filesystem;
using Files = std::set<std::string>;
using testing::ElementsAre;
using testing::IsSubsetOf;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file) << path;
  return text.str();
}

/// The lines without #include and comments.
std::string code_of(const fs::path& path) {
  std::istringstream text(text_of(path));
  std::string code;
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("#include")) {
      code += line.substr(0, line.find("//")) + '\n';
    }
  }
  return code;
}

bool names(std::string_view code, std::string_view word) {
  const auto is_part = [&](std::size_t at) {
    return at < code.size() && (std::isalnum(static_cast<unsigned char>(code[at])) != 0 || code[at] == '_');
  };
  for (std::size_t at = code.find(word); at != std::string_view::npos; at = code.find(word, at + 1)) {
    if (!(at > 0 && is_part(at - 1)) && !is_part(at + word.size())) {
      return true;
    }
  }
  return false;
}

/// The files of src whose code names one of the words, or whose own name has one: "tensor/quant/q5_0.h".
Files files_naming(const std::vector<std::string>& words) {
  const fs::path src = source_path("src");
  Files found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(src)) {
    const fs::path& path = entry.path();
    if (!entry.is_regular_file() || path.extension() == ".md") {
      continue;
    }
    const std::string code = code_of(path) + path.stem().string();
    if (std::ranges::any_of(words, [&](const std::string& word) {
          return names(code, word) || path.stem().string().ends_with("_" + word);
        })) {
      found.insert(path.lexically_relative(src).generic_string());
    }
  }
  return found;
}

/// The files in column `column` of a page's tables whose first line has the title `title`: each a file, or a choice of
/// several. A file without a folder is in that of the one before it.
std::vector<std::vector<std::string>> table_of(const std::string& page, std::string_view title, std::size_t column) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream text(text_of(source_path("docs/" + page)));
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    inside = line.starts_with('|') && (inside || line.find(title) != std::string::npos);
    if (!inside) {
      continue;
    }
    std::istringstream cells(line);
    std::string cell;
    for (std::size_t i = 0; i <= column + 1; ++i) {
      std::getline(cells, cell, '|');
    }
    bool choice = false;
    for (std::size_t begin = cell.find('`'); begin != std::string::npos;) {
      const std::size_t end = cell.find('`', begin + 1);
      std::string file = cell.substr(begin + 1, end - begin - 1);
      if (file.find('/') == std::string::npos && !rows.empty()) {
        file = (fs::path(rows.back().back()).parent_path() / file).generic_string();
      }
      if (file.find('.') != std::string::npos) {
        if (choice) {
          rows.back().push_back(file);
        } else {
          rows.push_back({file});
        }
      }
      begin = cell.find('`', end + 1);
      choice = begin != std::string::npos && cell.substr(end, begin - end).find(" or ") != std::string::npos;
    }
  }
  return rows;
}

/// All files of the rows without "src/", with `word` in place of FORMAT. Each exists.
Files all_of(const std::vector<std::vector<std::string>>& rows, const std::string& word = "") {
  Files files;
  for (const std::vector<std::string>& row : rows) {
    for (std::string file : row) {
      if (const std::size_t at = file.find("FORMAT"); at != std::string::npos) {
        file.replace(at, 6, word);
      }
      file = file.starts_with("src/") ? file.substr(4) : file;
      EXPECT_TRUE(fs::exists(source_path("src/" + file))) << file;
      files.insert(file);
    }
  }
  return files;
}

Files joined(Files a, const Files& b) {
  a.insert(b.begin(), b.end());
  return a;
}

/// The toy's files, without its test.
std::ptrdiff_t files_of_toy(const std::string& toy) {
  return std::ranges::count_if(fs::directory_iterator(source_path("tests/extension")),
                               [&](const fs::directory_entry& entry) {
                                 const std::string name = entry.path().filename().string();
                                 return name.starts_with("toy_" + toy) && name.find("_test.") == std::string::npos;
                               });
}

TEST(DryRuns, AFormatTouchesTheTenFilesOfItsTable) {
  const auto table = table_of("add-a-quant-format.md", "| file | what |", 0);
  EXPECT_EQ(table.size(), 10u);
  const Files known_to_ggml{"tensor/dtype.h", "tensor/dtype.cpp"};
  const Files other_duties{"ops/kv_coding.h", "ops/kv_layout.h", "kernels/matmul/hopper/matmul_many.cpp",
                           "kernels/matmul/hopper/matmul_tiles_mixed.cu"};
  for (const auto& [name, block] : {std::pair("q5_0", "BlockQ5_0"), std::pair("q5_k", "BlockQ5_K")}) {
    const Files listed = joined(all_of(table, name), joined(known_to_ggml, other_duties));
    EXPECT_THAT(files_naming({name, block}), IsSubsetOf(listed)) << name;
  }
  EXPECT_LE(files_of_toy("format"), 10);
}

TEST(DryRuns, AnArchitectureIsOneFileAndALineOfAnother) {
  for (const std::string& name : {std::string("smollm3"), std::string("olmo2"), std::string("qwen3next")}) {
    EXPECT_THAT(files_naming({name, name + "_architecture"}),
                ElementsAre("models/architectures/architectures.cpp", "models/architectures/" + name + ".cpp"));
    // The rest of the seven, beside which the guide names none.
    for (const std::string& file : {"tests/golden/models/" + name + ".gguf", "tests/golden/models/" + name + ".logits"}) {
      EXPECT_TRUE(fs::exists(source_path(file))) << file;
    }
    for (const char* file : {"tools/goldens/model_golden.py", "README.md", "docs/models.md"}) {
      EXPECT_TRUE(names(text_of(source_path(file)), name)) << file;
    }
  }
  EXPECT_LE(files_of_toy("architecture"), 12);
}

TEST(DryRuns, AnOperationTouchesTheFilesOfItsTables) {
  const auto table = table_of("add-an-operation.md", "| of `OverwriteRows` |", 1);
  EXPECT_EQ(table.size(), 18u);
  Files found = files_naming({"OverwriteRows", "overwrite"});
  std::erase_if(found, [](const std::string& file) {  // the parts that call it
    return file.starts_with("models/audio/") || file.starts_with("models/vision/") || file.starts_with("models/parts/");
  });
  EXPECT_THAT(found, IsSubsetOf(all_of(table)));
  EXPECT_LE(files_of_toy("operation"), 6);
}

TEST(DryRuns, ToysAreNotOfTheProduct) {
  for (const char* toy : {"api", "architecture", "format", "operation", "sampler"}) {
    EXPECT_GE(files_of_toy(toy), 1) << toy;
  }
  EXPECT_THAT(files_naming({"BlockToy", "ToyLimit", "toy_architecture", "make_toy_sampler", "toy_routes"}), ElementsAre());
}

}  // namespace
}  // namespace rocmforge::test
