#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/conversation.h"
#include "server/api/fields.h"
#include "service/model.h"

namespace rocmforge {

// Parts of messages, in the forms of all APIs. What is text is shown as text, images are kept for models that see them, what
// can be read is shown as text too (a plain document, a search's results), and of the rest the model sees a placeholder that
// says what was there. A client sends its whole conversation each time, so that a part that is refused would end it for
// good.

/// The text that stands for a part. Whatever is not a plain text is named among the request's unknown fields:
/// "messages[0].content[1].image". Throws ApiError(400) for a part without a type, or a text without its text.
std::string shown_text(Fields& part);

/// An image that says where it is, or a recording that does, else the text that stands for the part. Throws as
/// shown_text().
Part shown_part(Fields& part);

/// The parts of a content, which is a text or an array of parts. Throws ApiError(400).
std::vector<Part> shown_parts(Fields& fields, std::string_view name);

/// The same as content: "" for no parts, the text itself for one.
Content shown_content(Fields& fields, std::string_view name);

/// The texts that stand for all parts of a content, with `between` between two of them.
std::string shown_texts(Fields& fields, std::string_view name, std::string_view between);

/// A placeholder takes the place of each image and recording that the model does not take, which are named among the unknown
/// fields.
void show_media(Fields& fields, Conversation& conversation, const ServedModel& model);

/// "[web_search_call {...}]": what can be read of a call that a vendor's server made, or of its result. Encrypted members,
/// ids and bytes are left out.
std::string shown_record(std::string_view type, const Json& record);

/// The URL of bytes in base64, which may be one already.
std::string data_url(std::string_view media, std::string_view base64);

/// What the model sees in place of something that it can't.
std::string placeholder(std::string_view kind, std::string_view name = {});

}  // namespace rocmforge
