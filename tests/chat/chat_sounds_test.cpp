// Recordings among the parts of messages, in templates that write a mark for them and in others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "chat/conversation.h"
#include "error_of.h"

namespace rocmforge {
namespace {

using test::error_of;
using testing::HasSubstr;

const SoundPart sound{.url = "data:,"};

constexpr const char* that_hears =
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{{ '<|AUDIO|>' if p.type == 'audio' else p.text }}{% endfor %}{% endif %}|{% endfor %}";
constexpr const char* of_texts_alone = "{% for m in messages %}{{ m.content }}|{% endfor %}";

std::vector<ChatSegment> with_sounds(const char* source, const std::string& sound_text, std::vector<Part> parts,
                                     Role role = Role::user) {
  Conversation conversation{.messages = {{.role = role, .content = std::move(parts)}}};
  ChatRequest request = conversation.request();
  request.sound_text = sound_text;
  request.image_text = "<image>";
  return ChatTemplate(source).prompt(std::move(request)).segments;
}

TEST(ChatSounds, ATemplateWritesTheMark) {
  EXPECT_TRUE(ChatTemplate(that_hears).abilities().sounds);
  EXPECT_FALSE(ChatTemplate(that_hears).abilities().images.user);
  EXPECT_FALSE(ChatTemplate(of_texts_alone).abilities().sounds);
  EXPECT_EQ(text_of(with_sounds(that_hears, "", {TextPart{"a"}, sound, TextPart{"b"}})), "a<|AUDIO|>b|");
}

TEST(ChatSounds, WhereTextsAloneAreTakenTheMarkIsALineOfTheTemplate) {
  const std::vector<ChatSegment> segments =
      with_sounds(of_texts_alone, "<sound>", {sound, ImagePart{.url = "data:,"}, TextPart{"<sound>"}});
  EXPECT_EQ(text_of(segments), "<sound>\n<image>\n<sound>|");
  int written = 0, sent = 0;
  for (const ChatSegment& segment : segments) {
    (segment.from_template ? written : sent) += segment.text.find("<sound>") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(written, 1);
  EXPECT_EQ(sent, 1);
}

TEST(ChatSounds, OthersAreRefused) {
  EXPECT_THAT(error_of([] {
                with_sounds(of_texts_alone, "", {sound, TextPart{"a"}});
              }),
              HasSubstr("the chat template has no place for recordings"));
  EXPECT_THAT(error_of([] {
                with_sounds(that_hears, "", {sound, TextPart{"a"}}, Role::assistant);
              }),
              HasSubstr("messages[0].content: recordings may be in messages of the user"));
}

TEST(ChatSounds, AreStoredWithWhatTheyHold) {
  const Message message{.role = Role::user,
                        .content = std::vector<Part>{SoundPart{.url = "data:;base64,AAAA", .field = "f"}, TextPart{"a"}}};
  EXPECT_EQ(message_of_json(stored_json_of(message)).content, message.content);
  EXPECT_EQ(sounds_of(message.content).size(), 1U);
  EXPECT_TRUE(images_of(message.content).empty());
}

}  // namespace
}  // namespace rocmforge
