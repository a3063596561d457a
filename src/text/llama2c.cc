#include <fmt/format.h>

#include <cmath>    // for isfinite
#include <cstring>  // for memcpy

#include "kirchhoff/base/error.h"
#include "kirchhoff/text/tokenizer.h"
#include "text/bpe_from_scores.h"
#include "text/pipeline.h"

namespace kirchhoff::text {
namespace {

constexpr TokenId kUnknownId = 0, kBosId = 1, kEosId = 2;
constexpr std::size_t kFirstText = 3 + 256;  // after them come the 256 byte tokens

/// Takes values off the front of a file.
class Reader {
 public:
  Reader(std::string_view file, const std::string& path) : file_(file), path_(path) {}
  template <class T>
  T value() {
    T result{};
    std::memcpy(&result, bytes(sizeof result).data(), sizeof result);
    return result;
  }
  std::string_view bytes(std::size_t count) {
    check(count <= file_.size() - pos_, ErrorCode::format, "'{}' ends at byte {}, in the middle of token {}", path_,
          file_.size(), token);
    const std::string_view part = file_.substr(pos_, count);
    pos_ += count;
    return part;
  }
  std::size_t left() const { return file_.size() - pos_; }
  Index token = 0;  ///< for messages

 private:
  std::string_view file_;
  const std::string& path_;
  std::size_t pos_ = 0;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_llama2c_tokenizer(std::string_view file, const std::string& path,
                                                        Index vocabulary_size) {
  Reader reader(file, path);
  const auto longest = reader.value<std::int32_t>();
  std::vector<std::pair<std::string, std::int64_t>> entries;
  std::vector<double> scores;
  for (; reader.token < vocabulary_size; ++reader.token) {
    scores.push_back(static_cast<double>(reader.value<float>()));
    const auto length = reader.value<std::int32_t>();
    check(length >= 0 && length <= longest, ErrorCode::format,
          "'{}': token {} has length {}, the longest is said to have {}", path, reader.token, length, longest);
    entries.emplace_back(reader.bytes(static_cast<std::size_t>(length)), reader.token);
  }
  check(reader.left() == 0, ErrorCode::format, "'{}' has {} bytes after its {} tokens", path, reader.left(),
        vocabulary_size);
  check(entries.size() >= kFirstText && entries[3].first == "<0x00>", ErrorCode::format,
        "'{}' does not begin with 3 special and 256 byte tokens", path);

  PipelineParts parts;
  parts.where = fmt::format("'{}'", path);
  parts.normalizer = Normalizer({PrependText{" "}});
  parts.decoder = Decoder({ByteFallbackDecoding{}, FuseDecoding{}, StripDecoding{" ", 1, 0}});
  std::vector<bool> is_text(entries.size(), true);
  std::fill(is_text.begin(), is_text.begin() + kFirstText, false);
  BpeOptions options;
  options.unknown = kUnknownId;
  parts.model =
      bpe_from_scores(Vocabulary(std::move(entries), parts.where), scores, is_text, options, parts.where + ": score");
  parts.bos = kBosId;
  parts.eos = kEosId;
  parts.special = {kUnknownId, kBosId, kEosId};
  parts.prepends_bos = true;  // run.c always does
  parts.post_processor = PostProcessor({AddAround{{kBosId}, {}}});
  parts.kind = "SentencePiece BPE with byte fallback";
  parts.source = "llama2.c";
  return make_pipeline(std::move(parts));
}

}  // namespace kirchhoff::text
