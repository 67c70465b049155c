for _ in range({{num .times}}):
    print({{str .text}})
