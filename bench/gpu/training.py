"""Training steps as rows of check.py: forward pass, backward pass and update by SGD with momentum, in one program for toroid.

PyTorch runs the module, its backward pass and torch.optim.SGD, eager and with both compiled. Weights, activations and the optimiser's state are
bfloat16 on all sides; words of GPT-2 are padded to a multiple of 64, as is usual.
"""
import models

RATE, MOMENTUM = 0.01, 0.9


def rows(torch):
    """Name, a function that makes a module whose result is the loss, one that makes its arguments on the device."""
    words = 50304
    tokens = lambda *sizes: torch.randint(0, words, sizes, device="cuda")
    image = lambda *sizes: torch.randn(sizes, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    yield ("gpt2_train_b8_s1024", lambda: language_model(torch, models.gpt2(torch, words=words).to(torch.bfloat16)),
           lambda: (tokens(8, 1024), tokens(8, 1024)))
    yield ("resnet50_train_b64", lambda: classifier(torch, models.resnet50(torch).train()),
           lambda: (image(64, 3, 224, 224), torch.randint(0, 1000, (64,), device="cuda")))


def classifier(torch, model):
    loss = lambda model, image, label: torch.nn.functional.cross_entropy(model(image).float(), label)
    return with_loss(torch, model, loss)


def language_model(torch, model):
    """The next word's logits are products with the words' own rows."""
    def loss(model, tokens, following):
        logits = torch.nn.functional.linear(model(tokens), model.words.weight)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), following.flatten())

    return with_loss(torch, model, loss)


def with_loss(torch, model, loss):
    """A module whose result is loss(model, *its arguments)."""
    class WithLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *arguments):
            return loss(self.model, *arguments)

    return WithLoss()


def peer_step(torch, module, arguments, compile):
    """A function that makes one step in place and gives the loss."""
    optimiser = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)
    forward, update = (torch.compile(module), torch.compile(optimiser.step)) if compile else (module, optimiser.step)

    def step():
        loss = forward(*arguments)
        loss.backward()
        update()
        optimiser.zero_grad()
        return loss.detach()

    return step


def export(torch, module, arguments, returns_state):
    """The step as a program. Its buffers are parameters, momenta and the module's buffers; they are updated, or the new ones returned."""
    from torch.fx.experimental.proxy_tensor import make_fx

    names, parameters = zip(*module.named_parameters())
    buffers = dict(module.named_buffers())
    count = len(names)

    def step(state, inputs):
        own = [each.detach().requires_grad_() for each in state[:count]]
        changed = [each.clone() for each in state[2 * count:]]
        loss = torch.func.functional_call(module, dict(zip(names, own)) | dict(zip(buffers, changed)), tuple(inputs))
        momenta = [MOMENTUM * momentum + gradient
                   for momentum, gradient in zip(state[count:2 * count], torch.autograd.grad(loss, own))]
        return (loss.detach(), *[each.detach() - RATE * momentum for each, momentum in zip(own, momenta)], *momenta, *changed)

    state = [each.detach() for each in parameters] + [torch.zeros_like(each) for each in parameters] + list(buffers.values())
    traced = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(state, list(arguments))

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.traced = traced
            for i, each in enumerate(state):
                self.register_buffer(f"state{i}", each)

        def forward(self, *inputs):
            old = [getattr(self, f"state{i}") for i in range(len(state))]
            loss, *new = self.traced(old, list(inputs))
            if returns_state:
                return (loss, *new[:count])
            for each, value in zip(old, new):
                each.copy_(value)
            return loss

    return torch.export.export(Step(), tuple(arguments))
