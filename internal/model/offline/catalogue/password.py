import random
import string

# A fixed seed makes the same text every time: good for an example, not for a secret.
generator = random.Random({{num .seed}})
alphabet = string.ascii_letters + string.digits + "!@#$%&*"
print("".join(generator.choice(alphabet) for _ in range({{num .length}})))
