"""What tools/goldens/model_golden.py knows of Hy3 and GLM-5: their experts are chosen by sigmoids with a bias."""


def models(experts, latent, rope):
    return {
        "hy_v3": ("hy_v3", "HYV3", {
            **experts, "num_hidden_layers": 3, "head_dim": 16, "num_experts": 6, "router_scaling_factor": 1.7,
            "rms_norm_eps": 1e-5, "rope_parameters": rope(1000.0)}),
        # The indexer chooses as many positions as there are.
        "glm-dsa": ("glm-dsa", "GlmMoeDsa", {
            **latent, "q_lora_rank": 40, "n_group": 1, "topk_group": 1, "index_topk": 64, "index_head_dim": 32,
            "index_n_heads": 2, "rope_parameters": rope(1000.0)})}


EXPERT_KEYS = {
    "hy_v3": {
        "count": "num_experts", "weights_scale": "router_scaling_factor", "weights_norm": lambda _: True, "gating_func": 2,
        "shared_feed_forward_length": lambda config: config.moe_intermediate_size * config.num_shared_experts},
    "glm-dsa": {
        "count": "n_routed_experts", "shared_count": "n_shared_experts", "weights_scale": "routed_scaling_factor",
        "weights_norm": "norm_topk_prob", "gating_func": 2}}


def indexer_keys(config, kind):
    for key, attribute in (("head_count", "index_n_heads"), ("key_length", "index_head_dim"), ("top_k", "index_topk")):
        yield f"attention.indexer.{key}", kind, getattr(config, attribute, None)
