#include "kirchhoff/io/model_files.h"

#include <gtest/gtest.h>

#include "io_test_support.h"
#include "kirchhoff/io/tensor_writer.h"

namespace kirchhoff::io {
namespace {

namespace fs = std::filesystem;

/// An environment variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

class ModelFilesTest : public testing::Test {
 protected:
  void copy(const std::string& from, const std::string& to) {
    fs::create_directories(fs::path(directory_.path(to)).parent_path());
    fs::copy_file(test_data(from), directory_.path(to));
  }
  TemporaryDirectory directory_;
};

TEST_F(ModelFilesTest, HuggingFaceDirectories) {
  const ModelFiles files = open_model_files(test_data("golden/llama-gqa"));
  EXPECT_EQ(files.kind, ModelKind::hugging_face);
  EXPECT_EQ(files.config["model_type"], "llama");
  EXPECT_EQ(files.config_path, test_data("golden/llama-gqa/config.json"));
  EXPECT_EQ(files.checkpoint.format, "safetensors");
  EXPECT_FALSE(files.gguf.has_value());
  EXPECT_EQ(open_model_files(test_data("golden/gpt2-inverse-layer-scale")).checkpoint.tensors.size(), 40u);
  EXPECT_EQ(open_model_files(test_data("golden/gpt2-n-inner")).checkpoint.format, "torch");
}

TEST_F(ModelFilesTest, SafetensorsArePreferredAndCompanionsFound) {
  copy("golden/llama-gqa/config.json", "m/config.json");
  copy("golden/llama-gqa/model.safetensors", "m/model.safetensors");
  directory_.write("m/pytorch_model.bin", "never read");
  directory_.write("m/generation_config.json", R"({"eos_token_id": 1})");
  directory_.write("m/tokenizer_config.json", R"({"add_bos_token": true})");
  directory_.write("m/tokenizer.json", "{}");
  const ModelFiles files = open_model_files(directory_.path("m"));
  EXPECT_EQ(files.checkpoint.format, "safetensors");
  EXPECT_EQ(files.generation_config["eos_token_id"], 1);
  EXPECT_EQ(files.tokenizer_config["add_bos_token"], true);
  EXPECT_EQ(files.tokenizer_path, directory_.path("m/tokenizer.json"));
  // The weights alone, named directly, find the same companions.
  const ModelFiles named = open_model_files(directory_.path("m/model.safetensors"));
  EXPECT_EQ(named.kind, ModelKind::hugging_face);
  EXPECT_EQ(named.config_path, directory_.path("m/config.json"));
  EXPECT_EQ(named.tokenizer_path, files.tokenizer_path);
}

TEST_F(ModelFilesTest, ATokenizerNeedsNoWeights) {
  directory_.write("m/tokenizer.json", R"({"model": {}, "added_tokens": []})");
  EXPECT_EQ(open_model_files(directory_.path("m"), {.weights = false}).tokenizer_path,
            directory_.path("m/tokenizer.json"));
  const std::string path = directory_.path("m/tokenizer.json");
  EXPECT_EQ(open_model_files(path, {.weights = false}).tokenizer_path, path);
  EXPECT_TRUE(mentions(error_of([&] { open_model_files(path); }), "tokenizer"));
  EXPECT_EQ(error_of([&] { open_model_files(directory_.path("m")); }).code(), ErrorCode::not_found);
}

TEST_F(ModelFilesTest, OneGgufFileMakesADirectoryAModelSeveralDoNot) {
  copy("hostile/gguf/ok.gguf", "m/some-name.gguf");
  const ModelFiles files = open_model_files(directory_.path("m"));
  EXPECT_EQ(files.kind, ModelKind::gguf);
  ASSERT_TRUE(files.gguf.has_value());
  copy("hostile/gguf/ok.gguf", "m/other.gguf");
  const Error error = error_of([&] { open_model_files(directory_.path("m")); });
  EXPECT_TRUE(mentions(error, "some-name.gguf, other.gguf") || mentions(error, "other.gguf, some-name.gguf"))
      << error.what();
}

TEST_F(ModelFilesTest, ExpectedValuesBesideAModelAreNotTheModel) {
  copy("hostile/gguf/ok.gguf", "m/some-name.gguf");
  copy("golden/llama-gqa/expected.safetensors", "m/expected.safetensors");
  EXPECT_EQ(open_model_files(directory_.path("m")).kind, ModelKind::gguf);
  fs::remove(directory_.path("m/some-name.gguf"));
  EXPECT_EQ(error_of([&] { open_model_files(directory_.path("m")); }).code(), ErrorCode::not_found);
}

TEST_F(ModelFilesTest, WhatAFileIsIsFoundFromContent) {
  copy("hostile/gguf/ok.gguf", "a.bin");
  copy("hostile/torch/ok.pt", "b.gguf");
  copy("hostile/safetensors/ok.safetensors", "c.pt");
  copy("hostile/numpy/ok.npz", "d");
  copy("hostile/torch/legacy.pt", "e.safetensors");
  EXPECT_EQ(open_model_files(directory_.path("a.bin")).checkpoint.format, "gguf");
  EXPECT_EQ(open_model_files(directory_.path("b.gguf")).checkpoint.format, "torch");
  EXPECT_EQ(open_model_files(directory_.path("c.pt")).checkpoint.format, "safetensors");
  EXPECT_EQ(open_model_files(directory_.path("d")).checkpoint.format, "npz");
  EXPECT_EQ(open_model_files(directory_.path("e.safetensors")).checkpoint.format, "torch");
  directory_.write("f", "plain text");
  EXPECT_TRUE(mentions(error_of([&] { open_model_files(directory_.path("f")); }), "'plain te'"));
}

TEST_F(ModelFilesTest, TransformerLensDirectoriesAndSidecars) {
  const ModelFiles files = open_model_files(test_data("golden/tl-ln-mlp"));
  EXPECT_EQ(files.kind, ModelKind::transformer_lens);
  EXPECT_EQ(files.config["d_model"], 32);
  EXPECT_NE(files.checkpoint.find("blocks.0.attn.W_Q"), nullptr);
  EXPECT_EQ(open_model_files(test_data("golden/tl-ln-mlp/model.pt")).kind, ModelKind::transformer_lens);
  copy("golden/tl-ln-mlp/model.pt", "attn.pt");
  copy("golden/tl-ln-mlp/tl_config.json", "attn.json");
  const ModelFiles sidecar = open_model_files(directory_.path("attn.pt"));
  EXPECT_EQ(sidecar.kind, ModelKind::transformer_lens);
  EXPECT_EQ(sidecar.config_path, directory_.path("attn.json"));
}

TEST_F(ModelFilesTest, ABrokenConfigIsNamed) {
  copy("hostile/config/nan_eps.json", "m/config.json");
  const Error error = error_of([&] { open_model_files(directory_.path("m")); });
  EXPECT_TRUE(mentions(error, "config.json") && mentions(error, "rms_norm_eps") && mentions(error, "NaN"))
      << error.what();
}

TEST_F(ModelFilesTest, HubNamesAreFoundInTheCache) {
  const Variable cache("HF_HUB_CACHE", directory_.path("hub"));
  const std::string snapshot = "hub/models--some-org--tiny/snapshots/0123abcd/";
  copy("golden/llama-gqa/config.json", snapshot + "config.json");
  copy("golden/llama-gqa/model.safetensors", snapshot + "model.safetensors");
  const std::string expected = fs::path(directory_.path(snapshot)).parent_path().string();
  EXPECT_EQ(open_model_files("some-org/tiny").path, expected);  // the only snapshot
  directory_.write("hub/models--some-org--tiny/refs/main", "0123abcd\n");
  directory_.write("hub/models--some-org--tiny/refs/v1", "0123abcd");
  directory_.write("hub/models--some-org--tiny/snapshots/4567/config.json", "{}");
  EXPECT_EQ(open_model_files("some-org/tiny").path, expected);
  EXPECT_EQ(open_model_files("some-org/tiny@v1").path, expected);
  EXPECT_EQ(open_model_files("some-org/tiny@0123abcd").path, expected);
  const Error revision = error_of([] { open_model_files("some-org/tiny@v2"); });
  EXPECT_EQ(revision.code(), ErrorCode::not_found);
  EXPECT_NE(revision.help().find("hf download some-org/tiny --revision v2"), std::string::npos) << revision.help();
}

TEST_F(ModelFilesTest, TheCacheMayLieInThreePlaces) {
  const Variable none("HF_HUB_CACHE", "");
  const auto open = [] { return open_model_files("gpt2", {.weights = false}).path; };
  {
    const Variable home("HF_HOME", directory_.path("hf"));
    directory_.write("hf/hub/models--gpt2/snapshots/1/tokenizer.json", "{}");
    EXPECT_EQ(open(), directory_.path("hf/hub/models--gpt2/snapshots/1"));
  }
  const Variable no_home("HF_HOME", ""), no_xdg("XDG_CACHE_HOME", ""), home("HOME", directory_.path("me"));
  const Error absent = error_of(open);
  EXPECT_EQ(absent.code(), ErrorCode::not_found);
  EXPECT_NE(absent.help().find("hf download gpt2"), std::string::npos);
  EXPECT_TRUE(mentions(absent, directory_.path("me/.cache/huggingface/hub"))) << absent.what();
  directory_.write("me/.cache/huggingface/hub/models--gpt2/snapshots/1/tokenizer.json", "{}");
  EXPECT_EQ(open(), directory_.path("me/.cache/huggingface/hub/models--gpt2/snapshots/1"));
}

TEST_F(ModelFilesTest, PathsAreNoHubNames) {
  for (const char* path : {"./absent", "/absent/model", "a/b/c", "../x", "x@../../y"})
    EXPECT_TRUE(mentions(error_of([&] { open_model_files(path); }), "no such file")) << path;
}

TEST_F(ModelFilesTest, PlainLayouts) {
  if (shared_data("data").empty()) GTEST_SKIP() << "the shared data are not there";
  const ModelFiles sort = open_model_files(shared_data("data/nano-sort/gpt-nano-sort-model.json"));
  EXPECT_EQ(sort.kind, ModelKind::plain);
  EXPECT_EQ(sort.checkpoint.find("transformer.wte.weight")->shape, (Shape{3, 48}));
  EXPECT_EQ(sort.config["config"]["n_layer"], 3);
  const ModelFiles tracr = open_model_files(shared_data("data/tracr/tracr_reverse_len5.safetensors"));
  EXPECT_EQ(tracr.kind, ModelKind::plain);
  EXPECT_EQ(tracr.config["program"], "reverse_len5");
  const ModelFiles stories = open_model_files(shared_data("data/stories260K/stories260K.bin"));
  EXPECT_EQ(stories.kind, ModelKind::plain);
  EXPECT_EQ(stories.config["n_kv_heads"], 4);
  EXPECT_EQ(fs::path(stories.tokenizer_path).filename(), "tok512.bin");
  EXPECT_EQ(stories.checkpoint.find("layers.4.feed_forward.w2.weight")->shape, (Shape{64, 172}));
}

TEST_F(ModelFilesTest, TheHashIsThatOfTheWeightsInTheOrderOfTheirNames) {
  // cat model-0000?-of-00003.safetensors | sha256sum
  EXPECT_EQ(content_hash(open_model_files(test_data("golden/gpt2-inverse-layer-scale"))),
            "77d331c2c9f19d355471cf5c0e53c9fc9361d408e0d1845cb3b80094e24f3426");
}

}  // namespace
}  // namespace kirchhoff::io
