#include "base/json.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;
template class nlohmann::detail::serializer<nlohmann::ordered_json>;
template class nlohmann::detail::lexer<nlohmann::ordered_json, rocmforge::JsonFromString>;
template class nlohmann::detail::lexer<nlohmann::ordered_json, rocmforge::JsonFromView>;
template class nlohmann::detail::parser<nlohmann::ordered_json, rocmforge::JsonFromString>;
template class nlohmann::detail::parser<nlohmann::ordered_json, rocmforge::JsonFromView>;
