#include "text/pipeline.h"

#include <algorithm>  // for max
#include <utility>    // for move

#include "kirchhoff/base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

// Byte-level tokens write a space as U+0120.
bool is_space_in_token(const Utf8Step& step) {
  return step.valid && (step.code_point == 0x120 || is_white_space(step.code_point));
}

std::uint32_t leading_spaces(std::string_view token) {
  std::uint32_t count = 0;
  for (std::size_t pos = 0; pos < token.size(); ++count) {
    const Utf8Step step = utf8_step(token, pos);
    if (!is_space_in_token(step)) break;
    pos += step.length;
  }
  return count;
}

std::uint32_t trailing_spaces(std::string_view token) {
  std::uint32_t count = 0;
  for (std::size_t end = token.size(); end > 0; ++count) {
    const std::size_t begin = character_begin(token, end - 1);
    if (!is_space_in_token(utf8_step(token, begin))) break;
    end = begin;
  }
  return count;
}

class Pipeline final : public Tokenizer {
 public:
  explicit Pipeline(PipelineParts parts)
      : parts_(std::move(parts)),
        added_(std::move(parts_.added_tokens), parts_.normalizer, parts_.where + ": added_tokens"),
        takes_bytes_(parts_.pre_tokenizer.byte_level() || parts_.normalizer.makes_byte_level()),
        trims_offsets_(parts_.post_processor.trims_offsets()) {
    list_tokens();
  }

  Encoding encode(std::string_view text, const EncodeOptions& options) const override {
    check_text(text);
    Run run{text, options.recognise_special, BpeEncoder(*parts_.model), {}, {}};
    for (const AddedPiece& piece : added_.split(text, false, options.recognise_special)) {
      AlignedText part(text, piece.begin, piece.end);
      if (piece.token != nullptr)
        push_added(*piece.token, part, 0, piece.end - piece.begin, run);
      else
        encode_part(std::move(part), run);
    }
    parts_.post_processor.apply(text, options.add_special, run.tokens);
    Encoding encoding;
    encoding.ids.reserve(run.tokens.size());
    encoding.offsets.reserve(run.tokens.size());
    for (const EncodedToken& token : run.tokens) {
      encoding.ids.push_back(token.id);
      encoding.offsets.push_back(token.span);
    }
    return encoding;
  }

  std::string decode(std::span<const TokenId> ids, bool skip_special) const override {
    return decode_pieces(ids, skip_special, false);
  }
  std::string decode_bytes(std::span<const TokenId> ids) const override { return decode_pieces(ids, false, true); }

  Index size() const override { return static_cast<Index>(tokens_.size()); }
  const TokenInfo* find(TokenId id) const override {
    const Listed* listed = listed_token(id);
    return listed == nullptr ? nullptr : &listed->info;
  }
  std::optional<TokenId> id_of(std::string_view piece) const override {
    for (const AddedToken& token : added_.tokens())
      if (token.content == piece) return token.id;
    return parts_.model->vocabulary().find(piece);
  }
  std::optional<TokenId> bos() const override { return parts_.bos; }
  std::optional<TokenId> eos() const override { return parts_.eos; }
  std::optional<bool> prepends_bos() const override { return parts_.prepends_bos; }
  std::string description() const override {
    return fmt::format("{}, {} tokens ({})", parts_.kind, count_, parts_.source);
  }

 private:
  struct Listed {
    TokenInfo info;
    const AddedToken* added = nullptr;
    bool present = false;
    bool skipped = false;  // when special tokens are skipped
  };
  /// One call of encode.
  struct Run {
    std::string_view text;
    bool recognise_special;
    BpeEncoder encoder;
    std::vector<BpeModel::Token> word;
    std::vector<EncodedToken> tokens;
  };

  void check_text(std::string_view text) const {
    check(text.size() < UINT32_MAX, ErrorCode::usage, "the text has {} bytes, at most 4 GiB can be encoded at once",
          text.size());
    if (takes_bytes_) return;
    const std::size_t valid = valid_utf8_prefix(text);
    check(valid == text.size(), ErrorCode::usage, "the text is not valid UTF-8: byte 0x{:02X} at offset {}",
          static_cast<unsigned char>(text[std::min(valid, text.size() - 1)]), valid);
  }

  void push(TokenId id, ByteSpan span, std::string_view string, Run& run) const {
    EncodedToken token{id, span};
    if (trims_offsets_) token.leading_spaces = leading_spaces(string), token.trailing_spaces = trailing_spaces(string);
    run.tokens.push_back(token);
  }
  void push_added(const AddedToken& token, const AlignedText& text, std::size_t begin, std::size_t end,
                  Run& run) const {
    push(token.id, text.origin(begin, end), text.text().substr(begin, end - begin), run);
  }

  /// A part of the original text without plain added tokens.
  void encode_part(AlignedText part, Run& run) const {
    parts_.normalizer.apply(part);
    const std::vector<AddedPiece> pieces = added_.split(part.text(), true, run.recognise_special);
    if (pieces.size() == 1 && pieces[0].token == nullptr)
      return encode_words(parts_.pre_tokenizer.split(std::move(part)), run);
    for (const AddedPiece& piece : pieces) {
      if (piece.token != nullptr) {
        push_added(*piece.token, part, piece.begin, piece.end, run);
        continue;
      }
      encode_words(parts_.pre_tokenizer.split(part.slice(piece.begin, piece.end)), run);
    }
  }

  void encode_words(const Words& words, Run& run) const {
    for (const Words::Range& range : words.ranges) {
      run.word.clear();
      run.encoder.encode(words.text.text().substr(range.begin, range.end - range.begin), run.word);
      std::size_t begin = range.begin;
      for (const BpeModel::Token& token : run.word) {
        push(token.id, words.text.origin(begin, begin + token.length), parts_.model->vocabulary().piece(token.id), run);
        begin += token.length;
      }
    }
  }

  const Listed* listed_token(TokenId id) const {
    if (id < 0 || id >= size() || !tokens_[static_cast<std::size_t>(id)].present) return nullptr;
    return &tokens_[static_cast<std::size_t>(id)];
  }

  static DecodedPiece decoded_piece(const Listed& listed) {
    if (listed.added == nullptr) return {listed.info.piece};
    return {listed.added->form, listed.added->form == listed.added->content};
  }

  std::string decode_pieces(std::span<const TokenId> ids, bool skip_special, bool lossless) const {
    std::vector<DecodedPiece> pieces;
    pieces.reserve(ids.size());
    for (const TokenId id : ids) {
      const Listed* listed = listed_token(id);  // ids without a token (a padded vocabulary's) are no text
      if (listed == nullptr || (skip_special && listed->skipped)) continue;
      pieces.push_back(decoded_piece(*listed));
    }
    return parts_.decoder.decode(std::move(pieces), lossless);
  }

  void list_tokens() {
    const Vocabulary& vocabulary = parts_.model->vocabulary();
    TokenId end = vocabulary.end();
    for (const AddedToken& token : added_.tokens()) end = std::max(end, token.id + 1);
    tokens_.resize(static_cast<std::size_t>(end));
    for (TokenId id = 0; id < vocabulary.end(); ++id) {
      if (!vocabulary.has(id)) continue;
      Listed& listed = tokens_[static_cast<std::size_t>(id)];
      listed.present = true;
      listed.info.piece = vocabulary.piece(id);
      listed.info.bytes = parts_.decoder.bytes_of({listed.info.piece});
    }
    for (const AddedToken& token : added_.tokens()) {
      Listed& listed = tokens_[static_cast<std::size_t>(token.id)];
      listed.present = true;
      listed.added = &token;
      listed.info = {token.content, token.special ? token.content : parts_.decoder.bytes_of(decoded_piece(listed)),
                     token.special};
    }
    for (const TokenId id : parts_.special) {
      Listed& listed = tokens_[static_cast<std::size_t>(id)];
      listed.info.special = true;
      listed.info.bytes = listed.info.piece;
    }
    // As the reference skips: by the string that decoders see, so that a token whose normalized form differs stays.
    for (Listed& listed : tokens_)
      listed.skipped = listed.info.special && (listed.added == nullptr || listed.added->form == listed.added->content);
    count_ = std::count_if(tokens_.begin(), tokens_.end(), [](const Listed& listed) { return listed.present; });
  }

  PipelineParts parts_;
  AddedTokens added_;
  bool takes_bytes_, trims_offsets_;
  std::vector<Listed> tokens_;
  Index count_ = 0;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_pipeline(PipelineParts parts) {
  return std::make_shared<const Pipeline>(std::move(parts));
}

}  // namespace kirchhoff::text
