# call 0, v15: 22 of 32 differ, at [0, 0, 0]: 0.22885026037693024, expected 0.06173393875360489 (allowed 1.56e-06), torch.float32
# x0: (2, 4, 6) torch.float32 strides (24, 6, 1) free []
# x1: (2, 3, 4, 4) torch.int8 strides (48, 16, 4, 1) free []
v0 = torch.cat([x0, x0], -1)
v8 = torch.linalg.inv((v0 @ v0.mT + 3 * torch.eye(v0.shape[-2], dtype=v0.dtype)))
v14 = v8.unsqueeze(-1).expand(*v8.shape, 3)
v15 = torch.median(v14, -1)[0]
return v15
