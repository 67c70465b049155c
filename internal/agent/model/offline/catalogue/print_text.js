for (let i = 0; i < {{num .times}}; i++) {
  console.log({{str .text}});
}
