#include "chat/chat_format.h"

#include <array>

namespace rocmforge {
namespace {

struct BuiltinTemplate {
  std::string_view name, text;
};

// `turns` are the messages after an optional first system message. They must alternate between user and assistant.
#define ROCMFORGE_TURNS                                                                                                     \
  "{%- if messages and messages[0].role == 'system' %}{% set system = messages[0].content %}{% set turns = messages[1:] %}" \
  "{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}"                                                    \
  "{%- for message in turns %}{% if message.role != ('user' if loop.index0 is even else 'assistant') %}"                    \
  "{{ raise_exception('after an optional system message, user and assistant must take turns') }}{% endif %}{% endfor %}"

constexpr std::array<BuiltinTemplate, 7> templates = {{
    {"chatml",
     "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% "
     "endfor %}"
     "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"llama2",
     ROCMFORGE_TURNS "{%- for message in turns %}"
                     "{%- if message.role == 'assistant' %}{{ ' ' + message.content | trim + ' </s>' }}"
                     "{%- else %}{{ '' if loop.first else '<s>' }}{{ '[INST] ' }}"
                     "{%- set first = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' if loop.first and system else '' %}"
                     "{{- (first + message.content) | trim + ' [/INST]' }}{% endif %}"
                     "{%- endfor %}"},
    {"llama3",
     "{%- for message in messages %}"
     "{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}"
     "{%- endfor %}"
     "{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"mistral", ROCMFORGE_TURNS
     "{%- for message in turns %}"
     "{%- if message.role == 'assistant' %}{{ message.content + '</s>' }}"
     "{%- else %}{{ '[INST]' + (system + '\\n\\n' if loop.last and system else '') + message.content + '[/INST]' }}"
     "{%- endif %}{% endfor %}"},
    {"phi3",
     "{%- for message in messages %}{% if not (loop.first and message.role == 'system' and not message.content) %}"
     "{{- '<|' + message.role + '|>\\n' + message.content + '<|end|>\\n' }}{% endif %}{% endfor %}"
     "{{- '<|assistant|>\\n' if add_generation_prompt else '<|endoftext|>' }}"},
    {"gemma", ROCMFORGE_TURNS
     "{%- for message in turns %}"
     "{{- '<start_of_turn>' + ('user' if message.role == 'user' else 'model') + '\\n' }}"
     "{{- system + '\\n\\n' if loop.first and system else '' }}{{ message.content | trim + '<end_of_turn>\\n' }}"
     "{%- endfor %}"
     "{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"},
    {"zephyr",
     "{%- for message in messages %}{{ '<|' + message.role + '|>\\n' + message.content + '</s>\\n' }}{% endfor %}"
     "{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
}};

#undef ROCMFORGE_TURNS

}  // namespace

std::optional<std::string_view> builtin_chat_template(std::string_view name) {
  for (const BuiltinTemplate& each : templates) {
    if (each.name == name) {
      return each.text;
    }
  }
  return std::nullopt;
}

std::vector<std::string_view> builtin_chat_template_names() {
  std::vector<std::string_view> names;
  for (const BuiltinTemplate& each : templates) {
    names.push_back(each.name);
  }
  return names;
}

}  // namespace rocmforge
